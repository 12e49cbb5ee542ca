"""Corpora: what others publish as articles, tables and pictures, turned into passages."""
