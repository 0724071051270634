package manifests_test

import (
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/kuberig"
)

// restTime is how long nothing is to be asked of the API server. It ends a watch
// after five minutes and more. Nothing that publisher or agents repeat, after a refusal for
// example, has a pause of more than half a minute.
const restTime = 30 * time.Second

const (
	publisherUser = "system:serviceaccount:quoin-system:quoin-publisher"
	agentUser     = "system:serviceaccount:quoin-node:quoin-agent"
)

// observed is the traffic of a publisher and agents by the API server's own log.
type observed struct {
	*membership
	agents []*gpuMachine
	from   int64
}

// observedNodes are nodes of two racks.
var observedNodes = []string{"r00n00", "r03n07"}

// startObserved starts agents on machines of two racks.
func (m *membership) startObserved() *observed {
	m.t.Helper()
	return &observed{m, []*gpuMachine{m.startMachine(observedNodes[0], "gb200", inClique(0)), m.startMachine(observedNodes[1], "gb200", inClique(3))}, 0}
}

// taken are the requests of publisher and agents since it was last called.
func (o *observed) taken() []kuberig.Request {
	o.t.Helper()
	all, to, err := o.cluster.Requests(o.from)
	if err != nil {
		o.t.Fatal(err)
	}
	o.from = to
	var own []kuberig.Request
	for _, r := range all {
		renews := r.Resource == "leases"                           // of the leader
		verifies := r.Verb == "get" && r.Resource == "nodereports" // each agent its report, every ten minutes or so
		if (r.User == publisherUser || r.User == agentUser) && !renews && !verifies {
			own = append(own, r)
		}
	}
	return own
}

// traffic expects no request at rest, and for a change of one entry none but the
// write of that node's condition.
func (o *observed) traffic() {
	o.t.Helper()
	for _, agent := range o.agents {
		agent.gateIs(o.t, imex.ReasonReady)
	}
	verbs := map[string]int{}
	for _, r := range o.taken() {
		verbs[r.User[strings.LastIndex(r.User, ":")+1:]+" "+r.Verb]++
	}
	o.t.Logf("requests to join: %v", verbs)
	for _, must := range []string{"quoin-publisher list", "quoin-publisher patch", "quoin-agent list", "quoin-agent create"} {
		if verbs[must] == 0 {
			o.t.Errorf("the log has no %q at the start: it would have none later either", must)
		}
	}
	o.rest()

	for _, node := range []string{"r00n03", "r03n07"} { // a peer of an agent's node, and an agent's own
		o.change(node)
	}
}

// change has an entry change and change back. What has nothing to do with it may be asked
// beside it, for example by a leader that lost its Lease on a busy machine, but not each
// time.
func (o *observed) change(node string) {
	o.t.Helper()
	status := []kuberig.Request{{User: publisherUser, Verb: "patch", Resource: "nodes/status", Name: node}}
	own, diff := o.agents[1], ""
	for range 5 {
		o.taken()
		o.fleet.Node(node).SetReady(false)
		if node == "r03n07" {
			own.gateIs(o.t, imex.ReasonNotReady)
			o.until(node, "True NotReady")
		} else {
			o.until(node, "True NotReady")
		}
		diff = o.differs(status)
		o.fleet.Node(node).SetReady(true)
		o.until(node, "False Ready")
		own.gateIs(o.t, imex.ReasonReady)
		if diff += o.differs(status); diff == "" {
			return
		}
		o.t.Logf("%s changes: requests (-want +got):\n%s", node, diff)
	}
	o.t.Errorf("%s changes: other requests each time", node)
}

// rest waits until the first publication is made and nothing was asked for restTime.
func (o *observed) rest() {
	o.t.Helper()
	await.Until(o.t, "published", func() bool {
		_, err := o.cluster.Client().CoreV1().ConfigMaps("slurm").Get(o.t.Context(), "quoin-slurm", metav1.GetOptions{})
		return err == nil
	})
	asked := func(r kuberig.Request) bool { return r.Verb != "watch" }
	for range 10 {
		o.taken()
		time.Sleep(restTime)
		last := o.taken()
		if !slices.ContainsFunc(last, asked) {
			return
		}
		o.t.Logf("not at rest yet: %+v", last)
	}
	o.t.Errorf("something is asked every %s", restTime)
}

// differs compares the requests since the last time; a watch that the API server has
// ended begins anew, once. The same request again counts once: on a busy machine the
// publisher sees, and writes, a state between two.
func (o *observed) differs(want []kuberig.Request) (diff string) {
	o.t.Helper()
	var got []kuberig.Request
	watches := map[kuberig.Request]int{}
	for _, r := range o.taken() {
		if watches[r]++; r.Verb != "watch" || watches[r] > 1 {
			got = append(got, r)
		}
	}
	return cmp.Diff(want, slices.Compact(got))
}
