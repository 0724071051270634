package lint_test

import (
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf"
)

// Keys of lines NodeName and PartitionName, and a few that Slurm has elsewhere or nowhere.
const (
	nodeKeys = "BcastAddr Boards CPUs CPUSpecList CoreSpecCount CoresPerSocket CpuBind Feature Features Gres GresConf MemSpecLimit NodeAddr NodeHostname " +
		"Parameters Port Procs RealMemory Reason RestrictedCoresPerGPU Sockets SocketsPerBoard State TRESWeights ThreadsPerCore TmpDisk Topology Weight"
	partitionKeys = "AllocNodes AllowAccounts AllowGroups AllowQos Alternate CpuBind DefCPUPerGPU DefMemPerCPU DefMemPerGPU DefMemPerNode Default " +
		"DefaultTime DenyAccounts DenyQos DisableRootJobs Exclusive ExclusiveTopo ExclusiveUser GraceTime Hidden LLN MaxCPUsPerNode MaxCPUsPerSocket " +
		"MaxMemPerCPU MaxMemPerNode MaxNodes MaxTime MinNodes Nodes OverSubscribe OverTimeLimit PowerDownOnIdle PreemptMode Priority " +
		"PriorityJobFactor PriorityTier QOS ReqResv ResumeTimeout RootOnly SelectTypeParameters Shared State SuspendTime SuspendTimeout " +
		"TRESBillingWeights Topology"
	otherKeys = "Blocks BlockName Comment CertToken Core DefTime Extra Flags InstanceId InstanceType JobDefaults MinTime Owner ReservedCores " +
		"SegmentSize Sharing Switches TotalNodes"
)

// TestRealWords has slurmctld read each key on both kinds of lines.
func TestRealWords(t *testing.T) {
	eachRelease(t, func(t *testing.T, release slurmconf.Release) {
		s := startSlurm(t, release)
		for _, line := range []string{"NodeName", "PartitionName"} {
			for key := range strings.FieldsSeq(nodeKeys + " " + partitionKeys + " " + otherKeys) {
				// The last key is unknown, so that slurmctld ends before it looks at values.
				_, lines, err := s.checker.Check(t.Context(), map[string]string{"slurm.conf": line + "=n1 " + key + "=1 Nonsense=1\n"})
				if err != nil {
					t.Fatal(err)
				}
				complaint := strings.Join(lines, "\n")
				takes := strings.Contains(complaint, "unrecognized key: Nonsense")
				if !takes && !strings.Contains(complaint, "unrecognized key: "+key) {
					t.Fatalf("%s %s: slurmctld does not say which key it does not know: %s", line, key, complaint)
				}
				if got := release.TakesWord(strings.ToLower(line), strings.ToLower(key)); got != takes {
					t.Errorf("%s %s: lint says taken=%t, slurmctld %t", line, key, got, takes)
				}
			}
		}
	})
}
