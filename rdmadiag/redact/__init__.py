"""Records without the names in them: each is replaced by a pseudonym that keeps its structure.

Pure: what is given is a recorded host or a document that was printed, what comes back is the same
with other names. It opens nothing, and looks at no host.
"""
