package manifests_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	nvapi "sigs.k8s.io/dra-driver-nvidia-gpu/api/nvidia.com/resource/v1beta1"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/imexrig"
	"github.com/quoin-hpc/quoin/topology"
)

// The failures of ComputeDomains and IMEX, and the test that provokes each. A
// slash begins a sub-test of TestRealFailures.
//
//	a domain of that name with another spec                  /before
//	an empty domain whose status says Ready                  /before
//	no channel-0 in a ResourceSlice: the claim waits         /joined/no devices
//	a nineteenth node of a clique                            /joined/nineteenth node
//	a node without multi-node NVLink (no failure)            /joined/no multi-node NVLink
//	no label of GFD, with NVML's word (no failure)           /joined/no label
//	a fabric that registers late                             /joined/fabric in progress
//	the driver read the clique too early                     /first/clique missed
//	the driver read another clique than NVML                 /joined/another clique
//	a second claim on a node                                 /first/second claim, TestRealMembership
//	the holder's pod is gone and none comes                  /first/no holder
//	the holder's pod is deleted and comes back               /made anew, TestRealMembership
//	the end of another claim takes the node's label          /first/label taken
//	a channel held by somebody's own pod                     /first/channel taken
//	a claim in another namespace than its domain's           /first/claim in another namespace
//	a node in another domain                                 /first/another domain
//	two domains in one clique                                /first/two domains
//	a lost entry                                             /first/lost entry, TestRealMembership
//	two entries of one index                                 /first/one index, /first/its twin
//	a dead node's entry, which stays Ready                   /first/dead node
//	an address that a dead node's entry has too              /second/one address
//	a daemon that takes minutes                              /first/slow daemon
//	one daemon is not ready: so is the status of all         /first/bad daemon, /first/its neighbour
//	the label of GFD is gone, and nobody else says           /first/label gone
//	the label of GFD says something else than NVML           /second/label differs
//	a lost update of an entry                                /first/update lost
//	a daemon that is not ready while its entry is            /second/daemon behind
//	nvidia-imex.service beside the driver's daemon           /first/host service
//	an NVIDIA driver without channels                        /second/no channels
//	a daemon that does not reach all others                  /first/degraded, /third/down
//	an nvidia-imex-ctl that hangs                            /second/hanging
//	an entry under the clique that a node has left           /third/moved, /third/moving
//	a lost update of the domain's status                     /third/status behind
//	the domain is deleted under its claims                   /deleting, /gone
//	the domain is made anew under old claims                 /stale claims
//	no driver: no DeviceClasses of ComputeDomains            /undefined
//	the API server refuses the domain                        TestRealRefused of imex/computedomain
//	a driver that has no ComputeDomainCliques                TestRealNoCliques
//	jobs start without IMEX, or wait too long or not at all  TestRealGate of cmd/quoin, TestRealGateFile
type failures struct {
	*membership
	machines map[string]*gpuMachine
	was      map[string]said // by failure, the last that was said
}

// said is what is to be said of a node.
type said struct {
	failure, node string
	// condition is such as "True NotReady".
	condition string
	noted     bool     // a node that is ready has a note
	words     []string // of the condition's message
	// check is the reason that quoin imex check gives if that differs, and checked are words that it says:
	// it alone reads claims.
	check   string
	checked []string
	// gate is the reason of the gate, where the node has a machine and another
	// reason than its condition: its agent sees less.
	gate string
}

const (
	holderless = "nvidia.com/gpu.present"
	cliqueOf   = imexrig.GPUClique
)

// failingNodes are called by what will go wrong with them.
func failingNodes() []imexrig.Spec {
	var out []imexrig.Spec
	rack := func(number int, names ...string) {
		for _, name := range names {
			out = append(out, imexrig.Spec{Name: name, Clique: imexrig.RackClique(number), NoDevices: name == "late"})
		}
	}
	alone := func(number int, names ...string) { // no holder is on them
		for _, name := range names {
			out = append(out, imexrig.Spec{Name: name, Clique: imexrig.RackClique(number), Labels: map[string]string{holderless: "false"}})
		}
	}
	rack(0, "slow", "bad", "well", "lost", "twin1", "twin2", "dead", "heir")
	rack(1, "second", "unclaimed", "taken", "late")
	alone(1, "guest", "foreign")
	rack(2, "beside")
	alone(2, "other")
	rack(3, "nolabel")
	for _, s := range imexrig.Racks(1, imexrig.MaxDaemons+1) {
		rack(4, "full"+s.Name)
	}
	rack(5, "moved", "moving", "stays")
	rack(6, "elsewhere", "misled")
	rack(7, "service", "behind", "degraded", "unlabelled")
	return append(out, imexrig.Spec{Name: "early"}, imexrig.Spec{Name: "plain"})
}

// TestRealFailures provokes what goes wrong with ComputeDomains and IMEX, and holds
// that the Node's condition, quoin imex check and the gate of its jobs name it.
func TestRealFailures(t *testing.T) {
	t.Parallel()
	f := &failures{newMembership(t, failingNodes()), map[string]*gpuMachine{}, map[string]said{}}
	f.label(cliqueOf, nil, "unlabelled")
	_, err := f.fleet.AddDomain(t.Context(), "quoin-node", "quoin", "somebodys-channel")
	f.must(err)
	f.startPublisher()
	for _, node := range []string{"service", "behind", "degraded", "unlabelled", "misled"} {
		f.machines[node] = f.startMachine(node, "gb200", inClique(7))
	}
	f.machines["early"] = f.startMachine("early", "gb200", "fabric inProgress")
	f.machines["plain"] = f.startMachine("plain", "h100", "fabric notSupported")
	f.before()
	f.joined()
	f.first()
	f.second()
	f.third()
	f.deleted()
}

// expect waits until all is said.
func (f *failures) expect(wave string, all ...said) {
	f.t.Helper()
	f.t.Run(wave, func(t *testing.T) {
		for _, s := range all {
			t.Run(s.failure, func(t *testing.T) {
				own := *f.membership
				own.t = t
				own.until(s.node, s.condition, s.words...)
				f.gateIs(t, s)
			})
		}
		for _, s := range all {
			f.was[s.failure] = s
		}
		f.checkIs(t, all)
	})
	if f.t.Failed() {
		f.t.FailNow() // the next wave begins where this one ended
	}
}

// gateIs waits for what the node's agent says, where it has one.
func (f *failures) gateIs(t *testing.T, s said) {
	t.Helper()
	machine := f.machines[s.node]
	if machine == nil {
		return
	}
	want := s.gate
	if want == "" {
		_, want, _ = strings.Cut(s.condition, " ")
	}
	machine.gateIs(t, want)
}

// checkIs waits until quoin imex check names these nodes by the same words, and no
// other. What the domain's status lags behind does not count.
func (f *failures) checkIs(t *testing.T, all []said) {
	t.Helper()
	want := map[string]string{}
	for _, s := range all {
		status, reason, _ := strings.Cut(s.condition, " ")
		if s.noted || status == "True" {
			want[s.node] = cmp.Or(s.check, reason)
		}
	}
	var got map[string]string
	var out string
	same := func() bool {
		got = map[string]string{}
		out, _ = f.imexCheck(f.objects(",nodereports"))
		for line := range strings.Lines(out) {
			list, rest, is := strings.Cut(strings.TrimPrefix(line, "unknown: "), ": ")
			reason, _, isToo := strings.Cut(rest, ": ")
			nodes, err := hostlist.Expand(list)
			if !is || !isToo || strings.HasPrefix(line, " ") || err != nil {
				continue
			}
			for _, node := range nodes {
				got[node] = reason
			}
		}
		if len(got) != len(want) {
			return false
		}
		for node, reason := range want {
			if got[node] != reason {
				return false
			}
		}
		return true
	}
	await.Until(t, "quoin imex check names all nodes as wanted", same, func() string { return fmt.Sprintf("%v, want %v:\n%s", got, want, out) })
	for _, s := range all {
		for _, w := range s.checked {
			if !strings.Contains(out, w) {
				t.Errorf("%s: quoin imex check does not say %q:\n%s", s.failure, w, out)
			}
		}
	}
}

// report is what a node's agent has reported.
func (f *failures) report(node string) *topology.Node {
	f.t.Helper()
	object, err := f.cluster.Objects().Get(f.t.Context(), "nodereports", "", node)
	f.must(err)
	text, err := object.MarshalJSON()
	f.must(err)
	n, err := topology.ParseObject(node, text)
	f.must(err)
	return n
}

const (
	stateReady    = nvapi.ComputeDomainStatusReady
	stateNotReady = nvapi.ComputeDomainStatusNotReady
)
