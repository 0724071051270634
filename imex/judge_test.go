package imex

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
)

// words are the reason of a verdict, and whether a node that is ready has a note.
type words struct {
	reason string
	noted  bool
}

func verdict(reason string) words { return words{reason: reason} }

// noted is a node that is ready and has a note.
var noted = words{ReasonReady, true}

// but is a rack whose n1 is ready with a note.
func but() map[string]words { return map[string]words{"n1": noted} }

// unjudged stands for a node without a verdict.
var unjudged = words{}

// judgeCase breaks one thing of a rack.
type judgeCase struct {
	name  string
	spoil func(s *Observation)
	// want are the verdicts of some nodes.
	want map[string]words
	// others is the verdict of all other nodes, by default Ready without a note.
	others words
	// at is the node whose message and remedy are looked at, by default n1.
	at string
	// says are parts of that text. not is no part of it.
	says []string
	not  string
}

func runJudgeCases(t *testing.T, cases []judgeCase) {
	known := knownWords()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := rack()
			c.spoil(s)
			got := Judge(s)
			for name, v := range got {
				checkWords(t, known, name, v)
			}
			if diff := cmp.Diff(wantWords(s, &c), wordsOf(got), cmp.AllowUnexported(words{})); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
			at := c.at
			if at == "" {
				at = "n1"
			}
			text := got[at].Message + "\n" + got[at].Remedy
			if c.not != "" && strings.Contains(text, c.not) {
				t.Errorf("%s: %q is in\n%s", at, c.not, text)
			}
			for _, part := range c.says {
				if !strings.Contains(text, part) {
					t.Errorf("%s: %q is not in\n%s", at, part, text)
				}
			}
		})
	}
}

func wordsOf(verdicts map[string]Verdict) map[string]words {
	got := map[string]words{}
	for name, v := range verdicts {
		got[name] = words{v.Reason, v.Ready() && v.Remedy != ""}
	}
	return got
}

func wantWords(s *Observation, c *judgeCase) map[string]words {
	others := c.others
	if others == (words{}) {
		others = verdict(ReasonReady)
	}
	all := map[string]words{}
	for name := range s.Nodes {
		all[name] = others
	}
	maps.Copy(all, c.want)
	maps.DeleteFunc(all, func(_ string, w words) bool { return w == unjudged })
	return all
}

// checkWords holds what every verdict keeps to.
func checkWords(t *testing.T, known []string, name string, v Verdict) {
	t.Helper()
	switch {
	case v.Node != name:
		t.Errorf("%s: the verdict is on %q", name, v.Node)
	case !slices.Contains(known, v.Reason):
		t.Errorf("%s: no word of this package in %+v", name, v)
	case v.Message == "", v.Problem() && v.Remedy == "":
		t.Errorf("%s: no message or no remedy in %+v", name, v)
	case v.Problem() != (v.Severity == topology.Fatal || v.Severity == topology.Unknown), (v.Severity == topology.Unknown) != (v.Reason == ReasonUnknown), (v.Severity == topology.Warning) != (v.Ready() && v.Remedy != ""):
		t.Errorf("%s: severity %s of %+v", name, v.Severity, v)
	case v.Ready() && v.Problem():
		t.Errorf("%s: both ready and a problem: %+v", name, v)
	}
}

func TestJudgeDomain(t *testing.T) {
	problem := func(reason string) func(*Observation) {
		return func(s *Observation) {
			s.Domain.UID, s.Domain.Problem = "", topology.Finding{Reason: reason, Message: "seen so", Remedy: "do so"}
		}
	}
	runJudgeCases(t, []judgeCase{
		{name: "healthy", spoil: func(*Observation) {}, says: []string{"index 1 (10.0.0.2) in clique " + testClique}},
		{name: "no domain", spoil: problem(NoDomain), others: verdict(ReasonDomainProblem), says: []string{"seen so", "do so"}},
		{name: "no CRD", spoil: problem(ReasonNoDriver), others: verdict(ReasonNoDriver), says: []string{"seen so", "do so"}},
		{name: "forbidden", spoil: problem(NoDomain), others: verdict(ReasonDomainProblem), says: []string{"seen so", "do so"}},
		{name: "it does not match", spoil: func(s *Observation) {
			s.Domain.Problem = topology.Finding{Reason: DomainDiffers, Message: "allocationMode is Single, wanted is All", Remedy: "do so"}
			s.entry(1, func(m *Member) { m.Ready = false })
		}, want: map[string]words{"n1": verdict(ReasonDomainProblem)}, says: []string{"allocationMode is Single, wanted is All", "do so"}},
		{name: "it does not match, and all have joined", spoil: func(s *Observation) {
			s.Domain.Problem = topology.Finding{Reason: DomainDiffers, Message: "spec.numNodes is 18, not 0"}
		}},
		{name: "it is being deleted", spoil: func(s *Observation) {
			s.Domain.Problem = topology.Finding{Reason: DomainDeleting, Message: "seen so", Remedy: "do so"}
		}, others: verdict(ReasonDomainProblem), says: []string{"seen so", "do so"}},
		{name: "the domain is not to be read, and the label counts", spoil: func(s *Observation) {
			s.Domain.UID = ""
			s.node("n1", func(n *Node) { n.DomainLabel = "" })
		}, want: map[string]words{"n1": verdict(ReasonNotRegistered)}},
		{name: "not wanted", spoil: func(s *Observation) { s.Join = JoinNone }, others: verdict(ReasonNotWanted), says: []string{"imex.join is none"}},
	})
}

func TestJudgeNode(t *testing.T) {
	runJudgeCases(t, []judgeCase{
		{name: "no multi-node NVLink, whatever else", spoil: func(s *Observation) {
			s.node("n1", func(n *Node) { n.Fabric, n.Clique, n.CliqueLabel = FabricNone, "", "" })
			s.local("n1", func(l *topology.IMEX) { l.HostService, l.ChannelMajor = true, nil })
			s.leave(1)
			s.Claims = append(s.Claims, Claim{Namespace: "slurm", Name: "second", Node: "n1", Owner: OwnerSlurmd, Waiting: "slurm/w1"})
		}, want: map[string]words{"n1": verdict(ReasonNoMultiNodeNVLink)}},
		{name: "no clique by a label alone", spoil: func(s *Observation) {
			s.node("n1", func(n *Node) { n.Fabric, n.Clique, n.CliqueLabel = FabricUnknown, "", "N/A" })
			s.leave(1)
		}, want: map[string]words{"n1": verdict(ReasonNoMultiNodeNVLink)}, says: []string{"N/A"}},
		{name: "no multi-node NVLink, and labels from before", spoil: func(s *Observation) {
			s.node("n1", func(n *Node) { n.Fabric, n.DomainLabel = FabricNone, otherUID })
			s.leave(1)
			s.unclaim("n1")
		}, want: map[string]words{"n1": verdict(ReasonNoMultiNodeNVLink)}},
		{name: "NVML knows a clique and the label none", spoil: func(s *Observation) {
			s.node("n1", func(n *Node) { n.CliqueLabel = "N/A" })
		}, want: map[string]words{"n1": noted}},
		{name: "the fabric is not known yet", spoil: func(s *Observation) {
			s.node("n1", func(n *Node) { n.Fabric, n.Clique, n.CliqueLabel = FabricUnknown, "", "" })
			s.node("n2", func(n *Node) { n.Fabric, n.Clique, n.CliqueLabel, n.Local = FabricUnknown, "", "", nil })
		}, want: map[string]words{"n1": verdict(ReasonUnknown), "n2": verdict(ReasonUnknown)}, says: []string{"nvidia.com/gpu.clique", "quoin discover"}},
		{name: "the fabric is not ready", spoil: func(s *Observation) {
			s.node("n1", func(n *Node) {
				n.Fabric, n.Why = FabricNotReady, topology.Finding{Reason: topology.ReasonFabricNotReady, Message: "the fabric registration of its GPUs failed", Remedy: "repair it"}
			})
		}, want: map[string]words{"n1": verdict(ReasonFabricNotReady)}, says: []string{"registration of its GPUs failed", "repair it"}},
		{name: "a domain that there cannot be", spoil: func(s *Observation) {
			s.node("n1", func(n *Node) {
				n.Fabric, n.Why = FabricNone, topology.Finding{Reason: topology.ReasonDomainImplausible, Message: "NVLink of H100 ends in the machine"}
			})
		}, want: map[string]words{"n1": verdict(ReasonNoMultiNodeNVLink)}, says: []string{"NVLink of H100 ends in the machine: jobs need no IMEX here"}},
		{name: "GPU Feature Discovery has written no label", spoil: func(s *Observation) {
			s.node("n1", func(n *Node) { n.CliqueLabel = "" })
		}},
		{name: "no report, and the label says the clique", spoil: func(s *Observation) {
			s.node("n1", func(n *Node) { n.Fabric, n.Clique, n.Local = FabricUnknown, "", nil })
		}},
		{name: "the label differs from NVML", spoil: func(s *Observation) {
			s.node("n1", func(n *Node) { n.CliqueLabel = oldClique })
		}, want: map[string]words{"n1": noted}, says: []string{oldClique, "GPU Feature Discovery"}},
		{name: "the label differs, and the entry is under it", spoil: func(s *Observation) {
			s.node("n1", func(n *Node) { n.Clique = oldClique })
		}, want: map[string]words{"n1": verdict(ReasonNotRegistered)}, says: []string{oldClique + " by NVML", testClique + " by the label", "index 1 (10.0.0.2)", "kubelet plugin"}},
		{name: "a service of the host", spoil: func(s *Observation) {
			s.local("n1", func(l *topology.IMEX) { l.HostService = true })
		}, want: map[string]words{"n1": verdict(ReasonConflict)}, says: []string{"nvidia-imex.service", "READY", "disable --now"}},
		{name: "no major", spoil: func(s *Observation) {
			s.local("n1", func(l *topology.IMEX) { l.ChannelMajor, l.Channels = nil, 0 })
			s.claim("n1").Pods, s.claim("n1").Waiting = nil, "quoin-system/quoin-imex-n1"
		}, want: map[string]words{"n1": verdict(ReasonFabricNotReady)}, says: []string{"/proc/devices", "NVreg_ImexChannelCount"}},
		{name: "no device files of channels, which claims and Slurm make", spoil: func(s *Observation) {
			s.local("n1", func(l *topology.IMEX) { l.Channels = 0 })
		}},
		{name: "no device files of channels, which jobs use", spoil: func(s *Observation) {
			s.HostChannels = true
			s.local("n1", func(l *topology.IMEX) { l.Channels = 0 })
			s.node("n2", func(n *Node) { n.Local = nil })
		}, want: map[string]words{"n1": verdict(ReasonFabricNotReady)}, says: []string{"/dev/nvidia-caps-imex-channels of the node has no channel", "NVreg_CreateImexChannel0=1", "/channel0 c 235 0", "imex.hostChannels to false"}},
		{name: "no major, where jobs use the device files", spoil: func(s *Observation) {
			s.HostChannels = true
			s.local("n1", func(l *topology.IMEX) { l.ChannelMajor, l.Channels = nil, 0 })
		}, want: map[string]words{"n1": verdict(ReasonFabricNotReady)}},
		{name: "no GPUs and no membership", spoil: func(s *Observation) {
			s.Nodes["cpu"] = Node{Name: "cpu"}
		}, want: map[string]words{"cpu": unjudged}},
		{name: "no GPUs, and a claim that waits there", spoil: func(s *Observation) {
			s.Nodes["cpu"] = Node{Name: "cpu"}
			s.Claims = append(s.Claims, Claim{Namespace: "quoin-system", Name: "c", Node: "cpu", Owner: OwnerHolder, Waiting: "quoin-system/p"})
		}, want: map[string]words{"cpu": verdict(ReasonNotClaimed)}, at: "cpu", says: []string{"quoin-system/p"}},
		{name: "no GPUs, and a label", spoil: func(s *Observation) {
			s.Nodes["cpu"] = Node{Name: "cpu", DomainLabel: testUID}
		}, want: map[string]words{"cpu": verdict(ReasonUnknown)}},
		{name: "no GPUs, a claim and a label", spoil: func(s *Observation) {
			s.Nodes["cpu"] = Node{Name: "cpu", DomainLabel: testUID}
			s.Claims = append(s.Claims, Claim{Namespace: "quoin-system", Name: "c", Node: "cpu", Pods: []string{"quoin-system/p"}})
		}, want: map[string]words{"cpu": verdict(ReasonUnknown)}},
	})
}
