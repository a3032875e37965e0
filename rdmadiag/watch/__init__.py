"""What happens on a host, as it happens: the kernel's notifications as typed events, and the ring.

Pure: bytes in, values out. Sockets and files are opened by rdmadiag.host (notifications,
ring_file), what is printed is drawn by rdmadiag.render.
"""
