"""Errno names and texts, one whole table a platform.

The platform is that of the host where the number was seen, not of the machine that
decodes it: 96 is ENODATA on a Mac and EPFNOSUPPORT on Linux.

>>> errno_name(96, "darwin"), errno_name(96, "linux")
('ENODATA', 'EPFNOSUPPORT')
>>> errno_text(60, "darwin")
'errno 60 (ETIMEDOUT: Operation timed out)'
"""

from typing import Final, Literal

Platform = Literal["linux", "darwin", "unknown"]


def _table(rows: str) -> dict[int, tuple[str, str]]:
    """Number → name and text, from lines such as "1 EPERM Operation not permitted"."""
    found = {}
    for row in rows.strip().splitlines():
        number, name, text = row.split(" ", 2)
        found[int(number)] = (name, text)
    return found


# include/uapi/asm-generic/errno-base.h and errno.h, with glibc's texts; the architectures
# that differ (alpha, mips, parisc, sparc) carry no RDMA hosts that we know of. 524 is the
# kernel's own (include/linux/errno.h); drivers let it slip out.
_LINUX: Final = """
1 EPERM Operation not permitted
2 ENOENT No such file or directory
3 ESRCH No such process
4 EINTR Interrupted system call
5 EIO Input/output error
6 ENXIO No such device or address
7 E2BIG Argument list too long
8 ENOEXEC Exec format error
9 EBADF Bad file descriptor
10 ECHILD No child processes
11 EAGAIN Resource temporarily unavailable
12 ENOMEM Cannot allocate memory
13 EACCES Permission denied
14 EFAULT Bad address
15 ENOTBLK Block device required
16 EBUSY Device or resource busy
17 EEXIST File exists
18 EXDEV Invalid cross-device link
19 ENODEV No such device
20 ENOTDIR Not a directory
21 EISDIR Is a directory
22 EINVAL Invalid argument
23 ENFILE Too many open files in system
24 EMFILE Too many open files
25 ENOTTY Inappropriate ioctl for device
26 ETXTBSY Text file busy
27 EFBIG File too large
28 ENOSPC No space left on device
29 ESPIPE Illegal seek
30 EROFS Read-only file system
31 EMLINK Too many links
32 EPIPE Broken pipe
33 EDOM Numerical argument out of domain
34 ERANGE Numerical result out of range
35 EDEADLK Resource deadlock avoided
36 ENAMETOOLONG File name too long
37 ENOLCK No locks available
38 ENOSYS Function not implemented
39 ENOTEMPTY Directory not empty
40 ELOOP Too many levels of symbolic links
42 ENOMSG No message of desired type
43 EIDRM Identifier removed
44 ECHRNG Channel number out of range
45 EL2NSYNC Level 2 not synchronized
46 EL3HLT Level 3 halted
47 EL3RST Level 3 reset
48 ELNRNG Link number out of range
49 EUNATCH Protocol driver not attached
50 ENOCSI No CSI structure available
51 EL2HLT Level 2 halted
52 EBADE Invalid exchange
53 EBADR Invalid request descriptor
54 EXFULL Exchange full
55 ENOANO No anode
56 EBADRQC Invalid request code
57 EBADSLT Invalid slot
59 EBFONT Bad font file format
60 ENOSTR Device not a stream
61 ENODATA No data available
62 ETIME Timer expired
63 ENOSR Out of streams resources
64 ENONET Machine is not on the network
65 ENOPKG Package not installed
66 EREMOTE Object is remote
67 ENOLINK Link has been severed
68 EADV Advertise error
69 ESRMNT Srmount error
70 ECOMM Communication error on send
71 EPROTO Protocol error
72 EMULTIHOP Multihop attempted
73 EDOTDOT RFS specific error
74 EBADMSG Bad message
75 EOVERFLOW Value too large for defined data type
76 ENOTUNIQ Name not unique on network
77 EBADFD File descriptor in bad state
78 EREMCHG Remote address changed
79 ELIBACC Can not access a needed shared library
80 ELIBBAD Accessing a corrupted shared library
81 ELIBSCN .lib section in a.out corrupted
82 ELIBMAX Attempting to link in too many shared libraries
83 ELIBEXEC Cannot exec a shared library directly
84 EILSEQ Invalid or incomplete multibyte or wide character
85 ERESTART Interrupted system call should be restarted
86 ESTRPIPE Streams pipe error
87 EUSERS Too many users
88 ENOTSOCK Socket operation on non-socket
89 EDESTADDRREQ Destination address required
90 EMSGSIZE Message too long
91 EPROTOTYPE Protocol wrong type for socket
92 ENOPROTOOPT Protocol not available
93 EPROTONOSUPPORT Protocol not supported
94 ESOCKTNOSUPPORT Socket type not supported
95 EOPNOTSUPP Operation not supported
96 EPFNOSUPPORT Protocol family not supported
97 EAFNOSUPPORT Address family not supported by protocol
98 EADDRINUSE Address already in use
99 EADDRNOTAVAIL Cannot assign requested address
100 ENETDOWN Network is down
101 ENETUNREACH Network is unreachable
102 ENETRESET Network dropped connection on reset
103 ECONNABORTED Software caused connection abort
104 ECONNRESET Connection reset by peer
105 ENOBUFS No buffer space available
106 EISCONN Transport endpoint is already connected
107 ENOTCONN Transport endpoint is not connected
108 ESHUTDOWN Cannot send after transport endpoint shutdown
109 ETOOMANYREFS Too many references: cannot splice
110 ETIMEDOUT Connection timed out
111 ECONNREFUSED Connection refused
112 EHOSTDOWN Host is down
113 EHOSTUNREACH No route to host
114 EALREADY Operation already in progress
115 EINPROGRESS Operation now in progress
116 ESTALE Stale file handle
117 EUCLEAN Structure needs cleaning
118 ENOTNAM Not a XENIX named type file
119 ENAVAIL No XENIX semaphores available
120 EISNAM Is a named type file
121 EREMOTEIO Remote I/O error
122 EDQUOT Disk quota exceeded
123 ENOMEDIUM No medium found
124 EMEDIUMTYPE Wrong medium type
125 ECANCELED Operation canceled
126 ENOKEY Required key not available
127 EKEYEXPIRED Key has expired
128 EKEYREVOKED Key has been revoked
129 EKEYREJECTED Key was rejected by service
130 EOWNERDEAD Owner died
131 ENOTRECOVERABLE State not recoverable
132 ERFKILL Operation not possible due to RF-kill
133 EHWPOISON Memory page has hardware error
524 ENOTSUPP Operation is not supported
"""

# bsd/sys/errno.h of xnu. EOPNOTSUPP is 102 for programs of today (__DARWIN_UNIX03).
_DARWIN: Final = """
1 EPERM Operation not permitted
2 ENOENT No such file or directory
3 ESRCH No such process
4 EINTR Interrupted system call
5 EIO Input/output error
6 ENXIO Device not configured
7 E2BIG Argument list too long
8 ENOEXEC Exec format error
9 EBADF Bad file descriptor
10 ECHILD No child processes
11 EDEADLK Resource deadlock avoided
12 ENOMEM Cannot allocate memory
13 EACCES Permission denied
14 EFAULT Bad address
15 ENOTBLK Block device required
16 EBUSY Device / Resource busy
17 EEXIST File exists
18 EXDEV Cross-device link
19 ENODEV Operation not supported by device
20 ENOTDIR Not a directory
21 EISDIR Is a directory
22 EINVAL Invalid argument
23 ENFILE Too many open files in system
24 EMFILE Too many open files
25 ENOTTY Inappropriate ioctl for device
26 ETXTBSY Text file busy
27 EFBIG File too large
28 ENOSPC No space left on device
29 ESPIPE Illegal seek
30 EROFS Read-only file system
31 EMLINK Too many links
32 EPIPE Broken pipe
33 EDOM Numerical argument out of domain
34 ERANGE Result too large
35 EAGAIN Resource temporarily unavailable
36 EINPROGRESS Operation now in progress
37 EALREADY Operation already in progress
38 ENOTSOCK Socket operation on non-socket
39 EDESTADDRREQ Destination address required
40 EMSGSIZE Message too long
41 EPROTOTYPE Protocol wrong type for socket
42 ENOPROTOOPT Protocol not available
43 EPROTONOSUPPORT Protocol not supported
44 ESOCKTNOSUPPORT Socket type not supported
45 ENOTSUP Operation not supported
46 EPFNOSUPPORT Protocol family not supported
47 EAFNOSUPPORT Address family not supported by protocol family
48 EADDRINUSE Address already in use
49 EADDRNOTAVAIL Can't assign requested address
50 ENETDOWN Network is down
51 ENETUNREACH Network is unreachable
52 ENETRESET Network dropped connection on reset
53 ECONNABORTED Software caused connection abort
54 ECONNRESET Connection reset by peer
55 ENOBUFS No buffer space available
56 EISCONN Socket is already connected
57 ENOTCONN Socket is not connected
58 ESHUTDOWN Can't send after socket shutdown
59 ETOOMANYREFS Too many references: can't splice
60 ETIMEDOUT Operation timed out
61 ECONNREFUSED Connection refused
62 ELOOP Too many levels of symbolic links
63 ENAMETOOLONG File name too long
64 EHOSTDOWN Host is down
65 EHOSTUNREACH No route to host
66 ENOTEMPTY Directory not empty
67 EPROCLIM Too many processes
68 EUSERS Too many users
69 EDQUOT Disc quota exceeded
70 ESTALE Stale NFS file handle
71 EREMOTE Too many levels of remote in path
72 EBADRPC RPC struct is bad
73 ERPCMISMATCH RPC version wrong
74 EPROGUNAVAIL RPC prog. not avail
75 EPROGMISMATCH Program version wrong
76 EPROCUNAVAIL Bad procedure for program
77 ENOLCK No locks available
78 ENOSYS Function not implemented
79 EFTYPE Inappropriate file type or format
80 EAUTH Authentication error
81 ENEEDAUTH Need authenticator
82 EPWROFF Device power is off
83 EDEVERR Device error
84 EOVERFLOW Value too large to be stored in data type
85 EBADEXEC Bad executable
86 EBADARCH Bad CPU type in executable
87 ESHLIBVERS Shared library version mismatch
88 EBADMACHO Malformed Mach-O file
89 ECANCELED Operation canceled
90 EIDRM Identifier removed
91 ENOMSG No message of desired type
92 EILSEQ Illegal byte sequence
93 ENOATTR Attribute not found
94 EBADMSG Bad message
95 EMULTIHOP Reserved
96 ENODATA No message available on STREAM
97 ENOLINK Reserved
98 ENOSR No STREAM resources
99 ENOSTR Not a STREAM
100 EPROTO Protocol error
101 ETIME STREAM ioctl timeout
102 EOPNOTSUPP Operation not supported on socket
103 ENOPOLICY No such policy registered
104 ENOTRECOVERABLE State not recoverable
105 EOWNERDEAD Previous owner died
106 EQFULL Interface output queue is full
"""

ERRNOS: Final[dict[str, dict[int, tuple[str, str]]]] = {
    "linux": _table(_LINUX),
    "darwin": _table(_DARWIN),
}
"""Platform → number → name and text."""


def errno_name(number: int, platform: Platform) -> str:
    """The symbol, or "errno N" for a number that the platform's table does not have."""
    found = ERRNOS.get(platform, {}).get(number)
    return found[0] if found else f"errno {number}"


def errno_text(number: int, platform: Platform) -> str:
    """Number, symbol and the platform's text in one phrase."""
    found = ERRNOS.get(platform, {}).get(number)
    return f"errno {number} ({found[0]}: {found[1]})" if found else f"errno {number}"
