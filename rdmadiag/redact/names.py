"""Names of hosts, users, commands and folders: which there are, and which are everybody's."""

import re
from collections.abc import Iterable
from typing import Final

from rdmadiag.redact.pseudonyms import Pseudonyms
from rdmadiag.redact.secrets import REMOVED

_ORDINARY: Final = """
    (none) localhost localdomain local lan home internal linux darwin mac host user root nobody
    daemon admin operator node none unknown
    init systemd bash sh dash zsh ksh tcsh sshd ssh srun slurmd slurmstepd slurmctld sbatch salloc
    pbs_mom pbsdsh sge_execd sge_shepherd lsf res lim mpirun mpiexec mpiexec.hydra orterun orted
    prte prted prun hydra_pmi_proxy hydra_bstrap_pr torchrun python python3 perl java env sudo su
    kubelet containerd containerd-shim dockerd docker podman runc crun crio conmon tini pause
    cron crond atd login getty agetty tmux screen kthreadd swapper opensm ibacm iwpmd srp_daemon
    nvidia-persistenced nvidia-smi nv-fabricmanager rdmadiag pytest sleep cat make gdb strace
    kernel launchd kernel_task prog domain folder word mgs mgc mds oss
"""
ORDINARY: Final = frozenset(_ORDINARY.split())
"""Names of hosts, users and commands that are everybody's and identify nobody: left in."""

_SYSTEM_WORDS: Final = """
    rdma rdma_cm infiniband roce iwarp opa omni path ib ipoib eth ethernet net netdev link mlx4 mlx5
    mlx4_core mlx5_core mlx5_ib bnxt irdma efa hfi1 rxe siw class device devices port ports gid gids
    guid state address addresses name names type kind index table rate speed width mtu counter
    counters error errors failed failure fatal warning warn info debug ok up down active init armed
    polling disabled enabled unknown linux darwin kernel module modules driver firmware version
    system process processes status limits memory cpu gpu numa pci pcie bus slot node fabric subnet
    manager switch router cable transceiver thunderbolt apple mac macos verbs uverbs umad libibverbs
    librdmacm nccl ucx openmpi mpi cuda nvidia amd intel mellanox broadcom server client peer local
    remote source destination route routes rule rules user users group groups host hosts root home
    work test tests main data file files folder log logs queue pair pairs send recv read write
    timeout retry reset event events async completion context domain region shared bridge bond vlan
    loopback global private scope ipv4 ipv6 true false none null missing absent denied malformed
    unsupported evidence verdict finding findings severity critical summary remedy references
    schema_version tool generated_at platform machine hostname environment command commands config
    space mode land process page pages buffer buffers app application id uid not responding timed
    connect connected connection refused lost invalid found used call calls side end ends and or
    git json entry red head docs www mail api http https p2p rx tx metrics registry crash archive
    cache request requests code build release branch commit issue page site web app debian ubuntu
    the a an is was in at to from with for of by on no yes
"""
SYSTEM_WORDS: Final = frozenset(_SYSTEM_WORDS.split())
"""A name that is one of these is replaced where names alone stand, and not in other text."""

_STANDARD_FOLDERS: Final = """
    .local .config .cache state share rdmadiag failed_rtr.json lib lib64 lib32 bin sbin etc opt usr
    local var run tmp dev proc sys root Library Logs DiagnosticReports home Users Volumes
    x86_64-linux-gnu aarch64-linux-gnu cuda nccl ucx openmpi libfabric targets
"""
STANDARD_FOLDERS: Final = frozenset(_STANDARD_FOLDERS.split())


NETWORK_OF_LUSTRE: Final = r"(?:o2ib|tcp|kfi|gni|lo|ptlf|elan|mx|ra|vib)\d*"
"""What follows the @ of an address of its own."""

DEVICE: Final = re.compile(
    r"(?:mlx[45]|bnxt_re|irdma|i40iw|rxe|siw|hfi1|qib|efa|erdma|hns|mana|cxgb4|qedr|ocrdma|ionic"
    r"|usnic|vmw_pvrdma|rdma_en)[0-9_a-z]{0,15}"
    r"|(?:eth|ib|en|em|bond|br|bridge|vlan|lo|team|wlan|wl|veth|docker|virbr|dummy|tun|tap|vxlan|usb|utun"
    r"|awdl|llw|anpi|ap|gif|stf|bnep|macvlan|ipvlan|ifb|sit|gre|ip6tnl|tunl)[-_]?\d{0,4}"
    r"(?:[.:]\d{1,4})?"
    r"|(?:en|ib|wl|ww|roce|iw|opa|rdma)(?:P\d+)?(?:p\d+s\d+|s\d+|o\d+|x[0-9a-f]{8,16})"
    r"(?:[fnpdvriu]+\d+){0,5}|p\d+p\d+"
)
"""Forms of the names that kernels, drivers and udev give to devices and netdevs."""

NO_HOST: Final = re.compile(
    r"(?i)(?:qpn?|lid|rev|ver?|v|fw|p?id|psn|key|cpu|[pv]f|sf|ch|[rscep]q|sl|tc|x|i|ipv|port|lane"
    r"|thread|step|stage|phase|round|try|attempt|rank|task|socket|bank|core|plane|irq|numa|gen|tty\w?)"
    r"[0-9-]*"
)
"""Words with numbers that a driver has, and no site."""

_GROUP: Final = re.compile(r"[0-9a-fA-F]{1,4}")
_MADE: Final = re.compile(r"[a-z]+-[a-z2-7]{8}")
_LEAST_LETTERS: Final = 2
_LEAST_SERIAL: Final = 6


def apart(name: str, pattern: str) -> str:
    """A pattern that does not match inside an address: 2001:db8::1 is of no host db8."""
    return rf"(?<!:){pattern}" if _GROUP.fullmatch(name) else pattern


class Names:
    """Names of hosts, users, commands and folders: known ones are found wherever they stand."""

    def __init__(
        self, pseudonyms: Pseudonyms, kept: Iterable[str] = (), modules: Iterable[str] = ()
    ) -> None:
        """`kept` are those of devices, which are nobody's name; `modules` those of the kernel."""
        self._pseudonyms = pseudonyms
        self._kept = frozenset(each.casefold() for each in kept) | ORDINARY
        self._common = SYSTEM_WORDS | {each.casefold() for each in modules}
        self.seen: dict[str, str] = {}  # in small letters → kind
        self.domains: set[str] = set()
        self._made: set[str] = set()

    def is_kept(self, name: str) -> bool:
        """Whether it identifies nobody."""
        return not name.strip() or name.strip().casefold() in self._kept

    def holds_made(self, text: str) -> bool:
        """Whether a pseudonym is in it already."""
        return any(each in self._made for each in _MADE.findall(text))

    def is_word(self, name: str) -> bool:
        """Whether it is a word of the system."""
        return name.casefold() in self._common

    def is_common(self, name: str) -> bool:
        """Whether it may be a word of the system, or identifies nobody."""
        return self.is_word(name) or self.is_kept(name)

    def of(self, kind: str, name: str, *, learn: bool = True) -> str:
        """The name of a user, a command or a folder; one that is learnt is found elsewhere, too."""
        name = name.strip()
        if self.is_kept(name) or name.isdecimal() or name in self._made or name == REMOVED:
            return name
        low = name.casefold()
        kind = self.seen.setdefault(low, kind) if learn else self.seen.get(low, kind)
        made = self.number(name) if kind == "serial" else self._pseudonyms.word(kind, name)
        self._made.add(made)
        return made

    def number(self, name: str) -> str:
        """A serial number: digits for it, as many."""
        return self._pseudonyms.digits("serial", name)

    def note_serial(self, name: str) -> None:
        """To be found where nothing says that it is one; digits alone may be a count."""
        if len(name) >= _LEAST_SERIAL and not name.isdecimal() and not name.isalpha():
            self.seen.setdefault(name.casefold(), "serial")

    def host(self, name: str) -> str:
        """Of a host: label by label, so that those of one domain stay together."""
        labels = name.strip().split(".")
        domain = ".".join(labels[1:]).casefold()
        if domain and not any(each in self._made for each in labels):
            self.domains.add(domain)
        kinds = ["host"] + ["domain"] * (len(labels) - 1)
        return ".".join(map(self.of, kinds, labels))

    def folder(self, path: str) -> str:
        """A path with none but standard folders in it as they are."""
        parts = path.split("/")
        return "/".join(
            each if not each or each in STANDARD_FOLDERS else self.of("folder", each)
            for each in parts
        )

    def family_of(self, host: str) -> str | None:
        """The pattern of a host's name with other numbers; None where any word may be so."""
        letters = sum(each.isalpha() for each in host)
        if letters < _LEAST_LETTERS or not re.search(r"\d", host) or self.is_kept(host):
            return None
        if DEVICE.fullmatch(host) or NO_HOST.fullmatch(host):
            return None
        if re.fullmatch(r"[a-z]+\d+", host) and re.sub(r"\d+", "", host) in self._common:
            # gpu01 is of a family with gpu02 and gpu128, and not with gpu0
            pattern = re.sub(r"\d+", lambda found: rf"\d{{{len(found[0])},9}}", host)
            return rf"(?<!/){pattern}"
        pattern = re.sub(r"\d+", r"(?:\\d{1,9}|\\[[\\d,-]{1,200}\\])", re.escape(host))
        pattern = re.sub(r"\\-|_", "[-_]?", pattern) + ("[a-z]?" if host[-1].isdecimal() else "")
        return apart(host, pattern)
