"""How this host makes addresses of names, as far as its own files say it."""

from rdmadiag.facts import NOT_IN_RECORD, Missing
from rdmadiag.frozen import dataclass


@dataclass(frozen=True, slots=True)
class NamedAddress:
    """A row of /etc/hosts."""

    address: str
    host_names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NamingFacts:
    """The files that getaddrinfo(3) looks into; no name was looked up."""

    hostname: str | Missing  # /proc/sys/kernel/hostname
    hosts: tuple[NamedAddress, ...] | Missing  # /etc/hosts
    services: tuple[str, ...] | Missing  # "hosts:" of /etc/nsswitch.conf: "files", "dns"
    servers: tuple[str, ...] | Missing = NOT_IN_RECORD  # nameserver of /etc/resolv.conf
    search: tuple[str, ...] | Missing = NOT_IN_RECORD  # search, domain of it: the last one

    def addresses_of(self, name: str) -> tuple[str, ...]:
        """Of a name, in the order of the file, each once; () where it is not in there, or the
        file is not looked into first.
        """
        if isinstance(self.hosts, Missing) or not self.uses_hosts:
            return ()
        name = name.casefold().rstrip(".")
        found = (each for each in self.hosts if name in map(str.casefold, each.host_names))
        return tuple(dict.fromkeys(each.address for each in found))

    @property
    def others(self) -> tuple[str, ...]:
        """The services that are asked for what no file of the host says: "dns", "resolve"."""
        services = () if isinstance(self.services, Missing) else self.services
        return tuple(each for each in services if each not in ("files", "myhostname"))

    def asks_others_for(self, name: str) -> bool:
        """Whether /etc/hosts was read and has not got the name, and others are asked for it."""
        if isinstance(self.hosts, Missing):
            return False
        name = name.casefold().rstrip(".")
        named = any(name in map(str.casefold, each.host_names) for each in self.hosts)
        return bool(self.others) and not named

    @property
    def uses_hosts(self) -> bool:
        """Whether /etc/hosts is asked, and nobody before it who may know another address."""
        if isinstance(self.services, Missing):
            return False
        before = self.services[: self.services.index("files")] if "files" in self.services else None
        return before is not None and not {*before} & {"dns", "resolve", "sss", "ldap", "nis"}
