"""Recorded hosts: a Host that writes down what it reads, and one that reads it back.

A snapshot is a folder, or its .tar.gz:

    meta.json     what is not a file: identity, refusals, listings, links, device nodes
    root/         files as on the host
    netlink/      raw replies, one file a request
    cmd/          what commands printed

A bare folder with sys/class/infiniband in it is a snapshot without the rest.
"""
