package manifests_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	nvapi "sigs.k8s.io/dra-driver-nvidia-gpu/api/nvidia.com/resource/v1beta1"

	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/imexrig"
)

// before is while somebody's domain has the name of ours.
func (f *failures) before() {
	f.statusIs(stateReady) // it has no node
	f.domainIs("before", "DomainDiffers", "spec.channel.resourceClaimTemplate.name is somebodys-channel, not quoin-imex-channel", "set the keys below imex to what the domain has")
	f.remove("computedomains", "quoin-node", "quoin")
}

// domainIs waits until a fault of the domain is said once, of the domain. No node's condition
// says it, and an agent sees no domain but by the node's label.
func (f *failures) domainIs(wave, reason string, words ...string) {
	f.t.Helper()
	f.t.Run(wave, func(t *testing.T) {
		own := *f.membership
		own.t = t
		own.domainSays("quoin-node", reason, words...)
		f.gateIs(t, said{node: "service", gate: "NotClaimed"})
		own.until("plain", "False NoMultiNodeNVLink")
		for _, node := range []string{"well", "twin1", "service"} {
			if is, _ := own.condition(node); strings.Contains(is, "Domain") {
				t.Errorf("the condition of %s is %s", node, is)
			}
		}
	})
	if f.t.Failed() {
		f.t.FailNow()
	}
}

// nineteenth is the node of a rack that came when the clique was full.
func (f *failures) nineteenth() (last string) {
	f.t.Helper()
	await.Until(f.t, "18 entries in a rack of 19", func() bool {
		domain, err := f.nvidia().ComputeDomains("quoin-node").Get(f.t.Context(), "quoin", metav1.GetOptions{})
		if err != nil {
			return false // it is made anew
		}
		entries := f.fleet.Entries(domain.UID, imexrig.RackClique(4))
		for _, s := range imexrig.Racks(1, imexrig.MaxDaemons+1) {
			if _, in := entries["full"+s.Name]; !in {
				last = "full" + s.Name
			}
		}
		return len(entries) == imexrig.MaxDaemons
	})
	return last
}

// joined is what is wrong from the start.
func (f *failures) joined() {
	last := f.nineteenth()
	f.expect("joined",
		said{failure: "no devices", node: "late", condition: "True NotClaimed", words: []string{"run quoin imex check"}, checked: []string{"waits for the node's channel", "channel-0 in a ResourceSlice"}},
		said{failure: "nineteenth node", node: last, condition: "True NotRegistered", words: []string{"19 nodes, 18 of them with an entry"}},
		said{failure: "no multi-node NVLink", node: "plain", condition: "False NoMultiNodeNVLink"},
		said{failure: "no label", node: "unlabelled", condition: "False Ready"},
		said{failure: "fabric in progress", node: "early", condition: "True FabricNotReady", words: []string{"wait while the GPUs register"}},
		said{failure: "another clique", node: "misled", condition: "True NotRegistered", words: []string{imexrig.RackClique(7) + " by NVML and " + imexrig.RackClique(6)}},
		said{failure: "no holder yet", node: "guest", condition: "True NotClaimed"},
		said{failure: "no holder here", node: "foreign", condition: "True NotClaimed"},
		said{failure: "no holder there", node: "other", condition: "True NotClaimed"},
	)
}

// first is the first failure of most nodes.
func (f *failures) first() {
	ctx := f.t.Context()
	f.must(f.fleet.Node("late").Publish(ctx))
	f.must(f.fleet.ClaimingPod(ctx, "quoin-node", "worker", "second", "quoin-imex-channel"))
	f.must(f.cluster.Objects().Patch(ctx, "pods", "quoin-node", "worker", `{"metadata":{"labels":{"app.kubernetes.io/name":"slurmd","app.kubernetes.io/component":"worker"}}}`))
	f.label(holderless, "false", "unclaimed")
	f.takeLabel("taken")
	f.must(f.fleet.ClaimingPod(ctx, "quoin-node", "guests-pod", "guest", "quoin-imex-channel"))
	f.claimElsewhere("foreign")
	_, err := f.fleet.AddDomain(ctx, "default", "other", "other-channel")
	f.must(err)
	f.must(f.fleet.ClaimingPod(ctx, "default", "others-pod", "other", "other-channel"))
	f.fleet.Node("lost").LoseEntry(true)
	f.editClique(0, share("twin1", "twin2", func(from, to *nvapi.ComputeDomainDaemonInfo) { to.Index = from.Index }))
	f.must(f.fleet.Node("dead").Kill(ctx))
	f.fleet.Node("slow").SetReadyAfter(time.Hour)
	f.must(f.fleet.Node("slow").RestartDaemon(ctx))
	f.fleet.Node("bad").SetReady(false)
	f.label(cliqueOf, nil, "nolabel")
	f.loseUpdate("behind", stateNotReady)
	f.machines["service"].hostService(true)
	f.machines["degraded"].says("READY", "DEGRADED")
	f.machines["early"].Change(inClique(7))
	f.statusIs(stateNotReady)
	f.expect("first",
		said{failure: "second claim", node: "second", condition: "False Ready", noted: true, checked: []string{"of the worker pod quoin-node/worker waits", "of the quoin-imex pod quoin-node/quoin-imex-", "remove the claim from the worker pods"}},
		said{failure: "no holder", node: "unclaimed", condition: "True NotClaimed", checked: []string{"find out why the DaemonSet quoin-imex has no pod"}},
		said{failure: "label taken", node: "taken", condition: "True NotClaimed", check: "NotRegistered", checked: []string{"though claim quoin-node/quoin-imex-", "delete pod quoin-node/quoin-imex-"}},
		said{failure: "channel taken", node: "guest", condition: "False Ready", noted: true, checked: []string{"pod quoin-node/guests-pod holds the node's channel"}},
		said{failure: "claim in another namespace", node: "foreign", condition: "True NotClaimed", check: "WrongClaim", checked: []string{"claim default/foreign of pod default/foreign"}},
		said{failure: "another domain", node: "other", condition: "True WrongClaim", words: []string{"label resource.nvidia.com/computeDomain names "}, checked: []string{"pod default/others-pod"}},
		said{failure: "two domains", node: "beside", condition: "True Conflict", words: []string{"other; CUDA fails in a clique of two domains"}},
		said{failure: "lost entry", node: "lost", condition: "True NotRegistered"},
		said{failure: "one index", node: "twin1", condition: "True Conflict", words: []string{"; node twin2 "}},
		said{failure: "its twin", node: "twin2", condition: "True Conflict", words: []string{"; node twin1 "}},
		said{failure: "dead node", node: "dead", condition: "False Ready", noted: true, words: []string{"Kubernetes hears nothing from the node"}},
		said{failure: "slow daemon", node: "slow", condition: "True NotReady", words: []string{"a daemon takes some minutes to start"}},
		said{failure: "bad daemon", node: "bad", condition: "True NotReady"},
		said{failure: "its neighbour", node: "well", condition: "False Ready"},
		said{failure: "label gone", node: "nolabel", condition: "True Unknown", words: []string{"neither the node's report nor label"}},
		said{failure: "update lost", node: "behind", condition: "True NotReady", words: []string{"is NotReady (the local daemon says READY)"}},
		said{failure: "host service", node: "service", condition: "True Conflict", words: []string{"NV_ERR_IN_USE", "systemctl disable --now nvidia-imex.service"}},
		said{failure: "degraded", node: "degraded", condition: "False Ready", noted: true, words: []string{"the local daemon says that the domain is DEGRADED"}},
		said{failure: "clique missed", node: "early", condition: "True NotRegistered", words: []string{"restart the DRA driver's kubelet plugin"}},
		said{failure: "devices came", node: "late", condition: "False Ready"},
		f.still("another clique"), f.still("nineteenth node"), f.still("no multi-node NVLink"),
	)
}

// loseUpdate has the entry of a node stay as it is now, while its daemon goes on to
// another state.
func (f *failures) loseUpdate(node, entry string) {
	f.t.Helper()
	n := f.fleet.Node(node)
	n.SetReady(entry == stateReady)
	await.Until(f.t, "the entry of "+node+" "+entry, func() bool {
		return f.fleet.Entries(f.domain().UID, imexrig.RackClique(7))[node].Status == entry
	})
	n.FreezeStatus(true)
	n.SetReady(entry != stateReady)
}

// second ends these failures as their remedies say, and goes on to others.
func (f *failures) second() {
	f.must(f.cluster.RemovePod(f.t.Context(), "quoin-node", "worker"))
	f.label(holderless, "true", "unclaimed")
	f.remove("pods", "quoin-node", f.holder("taken").Name)
	f.remove("pods", "quoin-node", "guests-pod")
	f.remove("pods", "default", "foreign", "others-pod")
	f.label(holderless, "true", "guest", "foreign", "other")
	f.fleet.Node("lost").LoseEntry(false)
	f.must(f.fleet.Node("twin2").RestartDaemon(f.t.Context()))
	f.editClique(0, share("heir", "dead", func(from, to *nvapi.ComputeDomainDaemonInfo) { to.IPAddress = from.IPAddress }))
	f.fleet.Node("slow").SetReadyAfter(0)
	f.fleet.Node("bad").SetReady(true)
	f.label(cliqueOf, imexrig.RackClique(3), "nolabel")
	f.label(cliqueOf, imexrig.RackClique(6), "unlabelled")
	f.fleet.Node("behind").FreezeStatus(false)
	await.Until(f.t, "the entry of behind ready", func() bool {
		return f.fleet.Entries(f.domain().UID, imexrig.RackClique(7))["behind"].Status == stateReady
	})
	f.fleet.Node("behind").FreezeStatus(true)
	f.machines["behind"].says("WAITING_FOR_PEERS", "UP")
	f.machines["service"].hostService(false)
	f.machines["service"].channels(false)
	f.machines["degraded"].hangs()
	f.must(f.fleet.Node("early").Boot(f.t.Context(), imexrig.RackClique(7)))
	await.Until(f.t, "reported why the daemon's state is not known", func() bool {
		r := f.report("degraded")
		return r.IMEX != nil && r.IMEX.DaemonState == "" && len(r.Problems) > 0 && r.Problems[0].Reason == "ImexUnreadable" && strings.Contains(r.Problems[0].Message, "no answer in time")
	})
	f.expect("second",
		said{failure: "one address", node: "heir", condition: "True Conflict", words: []string{"; node dead "}},
		said{failure: "dead node", node: "dead", condition: "True Conflict", words: []string{"; node heir "}},
		said{failure: "label differs", node: "unlabelled", condition: "False Ready", noted: true, words: []string{"says " + imexrig.RackClique(6)}},
		said{failure: "daemon behind", node: "behind", condition: "True NotReady", words: []string{"is Ready (the local daemon says WAITING_FOR_PEERS)"}},
		said{failure: "no channels", node: "service", condition: "True FabricNotReady"},
		said{failure: "hanging", node: "degraded", condition: "False Ready"},
		f.still("another clique"), f.still("nineteenth node"), f.still("no multi-node NVLink"),
	)
}

// third is what the driver's status of the domain does not outlive.
func (f *failures) third() {
	ctx := f.t.Context()
	f.must(f.fleet.Node("dead").Boot(ctx, imexrig.RackClique(0)))
	f.must(f.fleet.Node("moved").Boot(ctx, imexrig.RackClique(6)))
	f.must(f.fleet.Node("moving").Boot(ctx, imexrig.RackClique(6)))
	f.fleet.Node("moving").LoseEntry(true)
	f.must(f.fleet.Node("misled").Boot(ctx, imexrig.RackClique(7)))
	await.Until(f.t, "two entries of a node", func() bool {
		return f.fleet.Entries(f.domain().UID, imexrig.RackClique(6))["moved"].Status == stateReady
	})
	f.must(f.fleet.Node("well").RestartDaemon(ctx))
	f.label(cliqueOf, imexrig.RackClique(7), "unlabelled")
	f.machines["behind"].says("READY", "UP")
	f.fleet.Node("behind").FreezeStatus(false)
	f.machines["service"].channels(true)
	f.machines["degraded"].says("READY", "DOWN")
	f.expect("third",
		said{failure: "moved", node: "moved", condition: "False Ready", noted: true, words: []string{"also has a stale entry", imexrig.RackClique(5), "remove the node's entry from ComputeDomainClique "}},
		said{failure: "moving", node: "moving", condition: "True NotRegistered", words: []string{imexrig.RackClique(5) + ", which it has left"}},
		said{failure: "moved and named by NVML", node: "misled", condition: "False Ready", noted: true},
		said{failure: "status behind", node: "well", condition: "False Ready"},
		said{failure: "down", node: "degraded", condition: "False Ready", noted: true, words: []string{"the local daemon says that the domain is DOWN"}},
		said{failure: "dead node", node: "dead", condition: "False Ready"},
		f.still("nineteenth node"), f.still("no multi-node NVLink"),
	)
}

// deleted has somebody delete the domain under its claims, after all is well.
func (f *failures) deleted() {
	f.editClique(5, without("moved"))
	f.editClique(5, without("moving"))
	f.editClique(6, without("misled"))
	f.fleet.Node("moving").LoseEntry(false)
	f.machines["degraded"].says("READY", "UP")
	f.expect("repaired", f.still("nineteenth node"), f.still("no multi-node NVLink"))

	const other = "example.com/keeps" // the driver's alone is gone at once
	domains := f.nvidia().ComputeDomains("quoin-node")
	_, err := domains.Patch(f.t.Context(), "quoin", types.JSONPatchType, []byte(`[{"op":"add","path":"/metadata/finalizers/-","value":"`+other+`"}]`), metav1.PatchOptions{})
	f.must(err)
	f.must(domains.Delete(f.t.Context(), "quoin", metav1.DeleteOptions{}))
	f.domainIs("deleting", "DomainDeleting", "start no job across nodes; end the pods that claim its channels")
	await.Until(f.t, "the end of what the driver does", func() bool { return slices.Equal(f.domain().Finalizers, []string{other}) })
	uid := string(f.domain().UID) // which the claims go on to name
	f.must(f.cluster.Objects().Patch(f.t.Context(), "computedomains", "quoin-node", "quoin", `{"metadata":{"finalizers":null}}`))
	f.domainIs("gone", "NoDomain", "is not created, because pod quoin-node/quoin-imex-", "holds a channel of another domain, or of one that was deleted", "if that domain was deleted, end all pods that hold its channels")

	_, err = f.fleet.AddDomain(f.t.Context(), "quoin-node", "quoin", "quoin-imex-channel")
	f.must(err)
	f.t.Run("stale claims", func(t *testing.T) {
		own := *f.membership
		own.t = t
		for _, node := range []string{"well", "twin1", "service"} {
			own.until(node, "True NotClaimed", "run quoin imex check")
		}
		own.check(1, "well: WrongClaim: ", "holds the node's channel of domain "+uid+", not ", "end the pods on the node that claim a channel of domain "+uid)
	})
	f.must(f.cluster.Client().CoreV1().Pods("quoin-node").DeleteCollection(f.t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=imex"}))
	f.expect("made anew", said{failure: "nineteenth node", node: f.nineteenth(), condition: "True NotRegistered"}, f.still("no multi-node NVLink"))

	f.remove("deviceclasses", "", "compute-domain-default-channel.nvidia.com", "compute-domain-daemon.nvidia.com")
	f.t.Run("undefined", func(t *testing.T) {
		own := *f.membership
		own.t = t
		for _, node := range []string{"well", "service"} {
			own.until(node, "False NoDriver", "NVIDIA's DRA driver does not serve ComputeDomains here")
			f.gateIs(t, said{node: "service", gate: "NoDriver"})
		}
	})
}

// still is what was last said of a failure.
func (f *failures) still(failure string) said { return f.was[failure] }
