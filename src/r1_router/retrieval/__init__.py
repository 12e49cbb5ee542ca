"""Knowledge bases: a passage store, an encoder, a FAISS index and a lexical index, built once and then only read."""
