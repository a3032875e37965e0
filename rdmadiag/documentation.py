"""Where the site of the documentation has a page: its place below the site's first page."""


def page_of_rule(code: str) -> str:
    """ "rules/link-not-up.html"; it stays as long as the code does."""
    return f"rules/{code}.html"


def page_of_errno(name: str) -> str:
    """ "errnos/ETIMEDOUT.html": of one that was traced to causes."""
    return f"errnos/{name}.html"


def address(page: str, base: str) -> str:
    """The page at `base`, the address of the site or its folder on this host.

    >>> address("rules/link-not-up.html", "https://docs.example.org/rdmadiag/index.html")
    'https://docs.example.org/rdmadiag/rules/link-not-up.html'
    """
    return f"{base.removesuffix('index.html').rstrip('/')}/{page}"
