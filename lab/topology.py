"""A fabric's wiring in the format of ibnetdiscover, which ibsim reads.

    Switch 36 "Leaf1"
    [1]  "Hca1"[1]
    [35] "Spine1"[1]

    Hca 2 "Hca1"
    [1]  "Leaf1"[1]

Every link stands in the records of both its ends: ibsim refuses a file with one of them only.
"""

SWITCH_PORTS = 36
SPINES = 2

Links = dict[int, tuple[str, int]]  # local port → remote node, remote port


def fat_tree(hcas: int) -> str:
    """`hcas` hosts Hca1… on leaf switches below two spines; every second HCA has two ports."""
    down = SWITCH_PORTS - SPINES
    switches: dict[str, Links] = {}
    hosts: dict[str, Links] = {}
    free = down + 1  # next free port of the current leaf; none is open yet
    leaf = ""
    for number in range(1, hcas + 1):
        host, ports = f"Hca{number}", 2 - number % 2
        hosts[host] = {}
        if free + ports - 1 > down:
            leaf, free = f"Leaf{len(switches) + 1}", 1
            switches[leaf] = {}
        for port in range(1, ports + 1):
            hosts[host][port] = (leaf, free)
            switches[leaf][free] = (host, port)
            free += 1
    if len(switches) > SWITCH_PORTS:
        raise ValueError(f"{hcas} HCAs need {len(switches)} leaves; spines have {SWITCH_PORTS}")
    spines: dict[str, Links] = {f"Spine{n}": {} for n in range(1, SPINES + 1)}
    for number, leaf in enumerate(switches, 1):
        for level, spine in enumerate(spines, 1):
            switches[leaf][down + level] = (spine, number)
            spines[spine][number] = (leaf, down + level)
    records = [
        _record("Switch", SWITCH_PORTS, name, links) for name, links in (switches | spines).items()
    ]
    records += [_record("Hca", len(links), name, links) for name, links in hosts.items()]
    return "\n".join(records)


def _record(kind: str, ports: int, name: str, links: Links) -> str:
    lines = [f'{kind} {ports} "{name}"']
    lines += [f'[{port}] "{node}"[{remote}]' for port, (node, remote) in sorted(links.items())]
    return "\n".join(lines) + "\n"
