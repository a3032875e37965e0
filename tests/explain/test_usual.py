"""The logs of an ordinary week (usual_logs.py), as `explain` reads them."""

from typing import Any, Final

import pytest

from rdmadiag.explain.causes import CAUSES
from tests.explain.score import Excerpt, Score, score
from tests.explain.usual_logs import HEALTHY, LOGS, OTHER, UNKNOWN

MISSED: Final = frozenset(
    {
        "a_fabric_engineer/arp-flux-two-ports-same-subnet",
        "a_fabric_engineer/opensm-log-planned-node-reboots",
        "a_fabric_engineer/rping-unreachable-110-between-pods",
        "a_fabric_engineer/write-bw-jumbo-dropped-by-switch",
        "a_field_engineer/healthy-vma-hugepage-warning",
        "a_field_engineer/k8s-ib-sriov-vf-guid-not-valid",
        "a_field_engineer/lustre-timed-out-rdma-oss",
        "a_field_engineer/spdk-perf-retry-counter-exceeded",
        "a_library_maintainer/psm3-cant-open-nic",
        "a_library_maintainer/ucx-perftest-bond-unreachable",
        "a_library_maintainer/ucx-remote-ep-lane-mismatch",
        "a_national_centre/healthy-manual-poll-cq-statuses",
        "a_national_centre/lustre-client-oss-timed-out-tx",
        "a_national_centre/openib-retry-exceeded-old-code",
        "a_national_centre/wrf-many-ranks-retry-roce",
        "a_research_institute/dask-ucxpy-endpoint-timeout",
        "a_research_institute/exo-mac-jaccl-rtr-errno-22",
        "a_research_institute/openfoam-ucx-retry-one-rlid",
        "a_roce_platform/ibstat-one-port-disabled",
        "a_roce_platform/nccl-ib-hca-wrong-name",
        "a_sole_administrator/journal-ib0-carrier-flaps-and-ucx",
        "a_sole_administrator/lustre-client-timed-out-rdma-oss",
        "a_sole_administrator/openib-retry-exceeded-openfoam-7",
        "a_storage_vendor/dscp-reset-by-router-prio0-arrives",
        "a_storage_vendor/healthy-exo-unexpected-node-id-warnings",
        "a_storage_vendor/mac-exo-two-cables-mismatched-qp-deadlock",
        "a_storage_vendor/nccl-takes-storage-nic-as-ninth-rail",
        "a_storage_vendor/nexus-pfc-auto-oper-off",
        "a_storage_vendor/nova-port-binding-failed-sriov-physnet",
        "a_support_desk/dmesg-create-mkey-limits-exceeded",
        "a_support_desk/forrtl-end-of-file-read",
        "a_support_desk/healthy-nvidia-imex-ctl-n",
        "a_support_desk/k8s-job-deadline-exceeded",
        "a_support_desk/ompi5-btl-openib-not-found",
        "a_support_desk/ucx-invalid-gid-index-3",
        "a_training_platform/healthy-neuron-single-instance-ofi-warn",
        "a_training_platform/healthy-rccl-iommu-pt-warning",
        "a_training_platform/openmpi-ucx-retry-one-dlid",
        "a_training_platform/rccl-ionic-modify-qp-110",
        "a_university_centre/lustre-kiblnd-timed-out-rdma",
        "a_university_centre/nfsrdma-connection-closed-103-loop",
        "a_university_centre/openib-btl-retry-exceeded-129",
        "a_university_centre/psm2-rcvhdrq-mmap-memlock",
        "acceptance_tests/healthy-dmesg-mlx5-boot",
        "acceptance_tests/healthy-rping-ends-with-disconnect",
        "acceptance_tests/lnet-o2ib-timed-out-tx-to-one-server",
        "acceptance_tests/rxe-kasan-use-after-free-in-nightly-kernel",
        "acceptance_tests/ucx-ib-retry-exceeded-at-scale",
        "an_hpc_site/apptainer-mpirun-not-in-path",
        "an_hpc_site/healthy-ucx-fork-warning-run-ends",
        "an_hpc_site/impi-bstrap-proxy-no-route-to-host",
        "an_hpc_site/lammps-cannot-open-input-script",
        "an_hpc_site/lnet-rejected-no-resources",
        "an_hpc_site/nvmet-keep-alive-timer-expired",
        "an_sre_of_gpus/efa-plugin-missing-tcp-busbw",
        "an_sre_of_gpus/ucx-dc-transport-retry-ib",
        "cases_of_a_vendor/healthy-man-rdma-connect-retry",
        "cases_of_a_vendor/lustre-kiblnd-timed-out-rdma",
        "cases_of_a_vendor/rccl-pollara-ionic-retry",
        "clusters_of_a_week/host-device-cni-vf-bound-to-vfio",
        "clusters_of_a_week/mac-jaccl-rtr-96-after-many-kills",
        "clusters_of_a_week/opensm-container-issm-missing",
        "forums/healthy-ibstat-roce-sm-lid-zero",
        "forums/healthy-rdma-core-build-from-source",
        "forums/mac-distributed-config-incomplete-mesh",
        "forums/mac-jaccl-run-metal-gpu-timeout",
        "forums/nouveau-loaded-nvidia-smi-fails",
        "forums/rxe-cfg-command-not-found",
        "forums/rxe-link-add-file-exists",
        "forums/win11-smb-direct-feature-disabled",
        "gpu_jobs/sglang-pd-peer-refused-mooncake",
        "hosts_and_macs/hfi1-port-polling",
        "hosts_and_macs/lnet-device-removal",
        "hosts_and_macs/vf-access-reg-noise",
        "hpc_and_storage/3fs-storage-first-msg-flushed",
        "hpc_and_storage/omp-thread-limit",
        "incidents_of_a_platform/deepep-internode-roce-dispatch-timeout",
        "incidents_of_a_platform/exo-jaccl-errno-96-after-many-loads",
        "incidents_of_a_platform/rccl-pollara-alltoall-retry",
        "incidents_of_a_platform/vllm-nixl-ucx-net-device-unavailable",
        "inference_and_clouds/vllm-nixl-not-installed",
        "jobs_and_set_up/healthy-manual-ibv-reg-mr-quoted",
        "jobs_and_set_up/nccl-net-gdr-level-loc-half-busbw",
        "jobs_and_set_up/nccl-pollconnect-refused-after-actor-death-verl",
        "jobs_of_a_week/healthy-psm3-warnings-fallback",
        "jobs_of_a_week/nccl-sharp-no-am",
        "jobs_of_a_week/nfs-rdma-timeouts-server",
        "jobs_of_a_week/scancel-torchrun-sigterm",
        "jobs_of_a_week/slurm-munge-expired",
        "listings_and_sessions/aws-sg-listing-no-self-rule",
        "listings_and_sessions/dnf-mirror-unreachable-ofed",
        "listings_and_sessions/mac-mlx-launch-command-not-found",
        "mpi_storage_and_macs/ceph-rdma-not-built",
        "mpi_storage_and_macs/lnet-create-qp-enomem",
        "mpi_storage_and_macs/mac-exo-rtr22-after-idle",
        "mpi_storage_and_macs/mac-jaccl-recv-60-midrun",
        "mpi_storage_and_macs/mac-sequoia-no-rdma-ctl",
        "mpi_storage_and_macs/sos-symmetric-heap",
        "nothing_of_rdma/chat-rnr-retry-explained",
        "nothing_of_rdma/ibv-devinfo-v-roce-cx6dx",
        "nothing_of_rdma/ipmi-fan-psu-critical",
        "nothing_of_rdma/lspci-vvv-connectx7-gen5-x16",
        "nothing_of_rdma/manpage-style-notes-wc-status-values",
        "nothing_of_rdma_after_all/chat-explains-retry-exceeded-error-12",
        "nothing_of_rdma_after_all/ci-siw-iwarp-loopback-workflow",
        "nothing_of_rdma_after_all/exo-log-two-macs-jaccl-ready",
        "nothing_of_rdma_after_all/fi-pingpong-verbs-then-fi-info",
        "nothing_of_rdma_after_all/ipmitool-sel-fan-and-psu",
        "nothing_of_rdma_again/lnetctl-stats-o2ib",
        "nothing_of_rdma_again/nccl-env-docs-timeout-retry",
        "nothing_of_rdma_again/nvcc-compile-error-user-kernel",
        "nothing_of_rdma_again/slack-explaining-xmit-wait",
        "nothing_of_rdma_at_last/chat-explaining-retry-cnt",
        "nothing_of_rdma_at_last/ipmi-sel-fan-failure",
        "nothing_of_rdma_at_last/nccl-duplicate-gpu-detected",
        "nothing_of_rdma_at_last/prolog-script-source-checks",
        "nothing_of_rdma_at_last/readme-nccl-tuning-table",
        "nothing_of_rdma_once_more/chat-explains-status-12",
        "nothing_of_rdma_once_more/ipmi-fan-psu-sel",
        "nothing_of_rdma_once_more/lspci-vvv-connectx7",
        "nothing_of_rdma_once_more/mlflow-postgres-timeout",
        "nothing_of_rdma_once_more/mlxlink-400g-healthy",
        "on_call/ecmp-two-elephant-flows-one-uplink-half-rate",
        "on_call/healthy-lustre-client-oss-failover-restored",
        "on_call/healthy-manual-ibv-wc-status-quoted",
        "on_call/hfi1-qsfp-power-class-above-slot-limit",
        "on_call/iommu-strict-translation-write-bw-drops-many-mrs",
        "on_call/mac-jaccl-coordinator-route-through-vpn-utun4",
        "on_call/other-nfs3-rdma-rpc-statd-not-running",
        "on_call/rdma-cni-move-device-busy-exclusive",
        "on_call/reg-mr-mmap-file-efault-after-kernel-65",
        "on_call/vf-max-tx-rate-10g-write-bw-capped",
        "programs_of_verbs/hang-cq-event-not-rearmed",
        "programs_of_verbs/healthy-flush-at-teardown",
        "programs_of_verbs/healthy-valgrind-uninitialised-ioctl",
        "programs_of_verbs/student-qpn-byte-order",
        "programs_of_verbs/undefined-reference-link-order",
        "public_trackers/exo-jaccl-rtr-60",
        "public_trackers/glusterd-rdma-init-warnings-tcp",
        "sessions_and_jobs/healthy-hpl-passed",
        "sessions_and_jobs/healthy-mvapich2-ptmalloc-warning",
        "sessions_and_jobs/healthy-picongpu-librxe-warning",
        "sessions_and_jobs/ibping-path-query-failed",
        "sessions_and_jobs/perftest-R-cm-event-7",
        "sessions_and_jobs/rping-route-error-110-ib",
        "sessions_of_hosts/ip-route-get-mgmt-interface",
        "sessions_of_hosts/mac-pmset-log-slept",
        "sessions_of_hosts/mac-rdma-ctl-old-macos",
        "sessions_of_hosts/nft-policy-drop-no-4791",
        "sessions_of_hosts/smpquery-node-timeout",
        "storage_and_databases/lustre-o2ib-timed-out-tx-oss",
        "storage_and_databases/manual-gds-and-ibv-wc-status-text",
        "storage_and_databases/nfs-rdma-client-closed-103-loop",
        "storage_and_databases/smb-direct-falls-back-30818",
        "storage_and_home_labs/jaccl-rtr-errno-96-after-sleep",
        "storage_and_home_labs/pvrdma-no-paired-vmxnet3",
        "storage_and_home_labs/win11-pro-client-no-smbdirect",
        "tickets/mac-netstat-two-cables-169254",
        "tickets/nvidia-smi-memory-taken",
        "tickets/nvme-list-subsys-connecting",
        "tickets_and_daemons/dmesg-nf-conntrack-table-full",
        "tickets_and_daemons/dmesg-xid31-mmu-fault-user",
        "tickets_and_daemons/healthy-gdscheck-listing",
        "tickets_and_daemons/healthy-vma-hugepages-warning",
        "tickets_and_daemons/healthy-windows-smbdirect-listing",
        "tickets_and_daemons/sinfo-nodes-down-not-responding-low-memory",
        "tickets_and_daemons/windows-netadapterrdma-disabled",
        "tickets_of_a_gpu_cloud/lustre-o2iblnd-timed-out",
        "tickets_of_a_gpu_cloud/manual-nccl-ib-variables",
        "trackers_and_forums/homelab-slow-pcie-x4",
        "trackers_and_forums/man-ibv-modify-qp-excerpt",
        "user_support/lustre-client-kiblnd-timed-out-rdma",
        "users_of_gpus/healthy-ray-status-kuberay-two-workers",
        "users_of_gpus/healthy-rdma-shared-dp-kubelet-restart",
        "users_of_gpus/pytorchjob-init-waiting-for-master",
        "users_of_gpus/tcpstore-should-dump-flag-server-shut-down",
        "users_without_support/jaccl-coordinator-connect-60",
        "users_without_support/k8s-torch-remoteerror-retry-exceeded",
        "what_administrators_paste/apt-doca-unmet-deps",
        "what_administrators_paste/doca-ofed-apt-install-ok",
        "what_administrators_paste/ib-pkey-not-in-partition-ibdiag",
        "what_administrators_paste/ibqueryerrors-xmitwait-congestion",
        "what_administrators_paste/ipoib-connected-mode-refused",
        "what_administrators_paste/lxc-uverbs-eperm",
        "what_administrators_paste/oops-rpcrdma-reconnect",
        "what_administrators_paste/sriov-numvfs-already-enabled",
    }
)
"""Whose first cause is another one; what is mended goes out of here."""


def explained(row: dict[str, Any]) -> Score:
    return score(Excerpt(row["id"], {}, row["text"].encode()))


def is_right(row: dict[str, Any]) -> bool:
    """Nothing fails in what is healthy; else the first cause of what failed is one of the labels.

    Where nothing failed, as in a job that only goes by sockets, that of the first note.
    """
    found = explained(row)
    shown = found.account.first or found.account.other
    first = [each.label for each in shown.causes[:1]] if shown else []
    if shown is None and found.account.notes:
        first = [each.label for each in found.account.notes[0].causes[:1]]
    if HEALTHY in row["labels"] and shown is None:
        return True
    if OTHER in row["labels"] and found.account.other and found.as_ok:
        return True
    return bool({*first} & {*row["labels"]})


@pytest.mark.parametrize("row", LOGS, ids=lambda row: row["id"])
def test_the_first_cause_is_one_that_a_reader_of_the_log_would_give(row: dict[str, Any]) -> None:
    assert is_right(row) == (row["id"] not in MISSED)


def test_labels_are_causes() -> None:
    given = {label for row in LOGS for label in row["labels"]}
    assert given - {HEALTHY, OTHER, UNKNOWN} <= {*CAUSES}


def test_each_that_is_missed_is_there() -> None:
    assert {row["id"] for row in LOGS} >= MISSED
