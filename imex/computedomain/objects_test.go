package computedomain

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/imex"
)

// listedText is a domain with a member, whose claim a holder has and a worker pod waits
// for another.
const listedText = `{"apiVersion":"v1","kind":"List","items":[
{"kind":"Node","metadata":{"name":"n1"}},
{"kind":"ComputeDomain","metadata":{"namespace":"quoin-node","name":"quoin","uid":"u1"},"spec":{"numNodes":0,"channel":{"allocationMode":"All","resourceClaimTemplate":{"name":"quoin-imex-channel"}}},
 "status":{"status":"NotReady","nodes":[{"name":"n1","ipAddress":"10.0.0.1","cliqueID":"c.1","index":3,"status":"Ready"}]}},
{"kind":"ComputeDomainClique","metadata":{"namespace":"driver","name":"u1.c.1"},"daemons":[{"nodeName":"n1","ipAddress":"10.0.0.1","cliqueID":"c.1","index":3,"status":"Ready"}]},
{"kind":"Pod","metadata":{"namespace":"quoin-node","name":"h","uid":"p1","labels":{"app.kubernetes.io/name":"quoin","app.kubernetes.io/component":"imex"}},
 "spec":{"nodeName":"n1","resourceClaims":[{"name":"channel","resourceClaimName":"a"}]},"status":{"phase":"Running"}},
{"kind":"Pod","metadata":{"namespace":"slurm","name":"other"},"spec":{"nodeName":"n1"}},
{"kind":"ResourceClaim","metadata":{"namespace":"quoin-node","name":"a"},"spec":{"devices":{"requests":[{"name":"channel","exactly":{"deviceClassName":"compute-domain-default-channel.nvidia.com"}}]}},
 "status":{"reservedFor":[{"resource":"pods","name":"h","uid":"p1"}],"allocation":{"devices":{"results":[{"request":"channel","driver":"compute-domain.nvidia.com","pool":"n1","device":"channel-0"}]}}}},
{"kind":"ResourceClaim","metadata":{"namespace":"quoin-node","name":"gpu"},"spec":{"devices":{"requests":[{"name":"gpu","exactly":{"deviceClassName":"gpu.nvidia.com"}}]}}}
],"metadata":{"resourceVersion":""}}
`

func complete(t *testing.T) imex.Config {
	t.Helper()
	c, err := imex.Config{}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// listOf adds the items of lists, one after the other.
func listOf(t *testing.T, config imex.Config, texts ...string) *imex.Observation {
	t.Helper()
	l := NewObjects(config)
	for _, text := range texts {
		var list struct{ Items []json.RawMessage }
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatal(err)
		}
		for _, item := range list.Items {
			var head struct{ Kind string }
			if err := json.Unmarshal(item, &head); err != nil {
				t.Fatal(err)
			}
			if err := l.Add(head.Kind, item); err != nil {
				t.Fatal(err)
			}
		}
	}
	return l.Seen()
}

func TestObjects(t *testing.T) {
	member := imex.Member{Node: "n1", Address: "10.0.0.1", Clique: "c.1", Index: 3, Ready: true}
	want := &imex.Observation{
		Join: imex.JoinHolder, Why: "the pods of the DaemonSet quoin-imex hold channels", Domain: imex.Domain{Namespace: "quoin-node", Name: "quoin", UID: "u1"},
		Members: map[string]imex.Member{"n1": member}, Cliques: []imex.Clique{{Domain: "u1", ID: "c.1", Daemons: []imex.Member{member}}},
		Claims: []imex.Claim{{Namespace: "quoin-node", Name: "a", Node: "n1", Owner: imex.OwnerHolder, Pods: []string{"quoin-node/h"}}},
	}
	if diff := cmp.Diff(want, listOf(t, complete(t), listedText)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := NewObjects(complete(t)).Add("ComputeDomain", []byte(`{"metadata":7}`)); err == nil || !strings.Contains(err.Error(), "cannot unmarshal number") {
		t.Errorf("a broken object: %v", err)
	}
	config := complete(t)
	config.HostChannels = true
	if host := listOf(t, config, listedText); !host.HostChannels {
		t.Errorf("where jobs use the nodes' channels: %+v", host)
	}
	config.Join = imex.JoinSlurmd
	worker := `{"kind":"Pod","metadata":{"namespace":"slurm","name":"w","labels":{"app.kubernetes.io/name":"slurmd","app.kubernetes.io/component":"worker"}},"spec":{"nodeName":"n2"}}`
	if slurm := listOf(t, config, listedText, `{"items":[`+worker+`]}`); !cmp.Equal(slurm.Workers, map[string]bool{"n2": true}) {
		t.Errorf("where worker pods claim: %+v", slurm)
	}
	if none := NewObjects(complete(t)).Seen(); none.Domain.UID != "" || none.Domain.Problem.Reason != imex.NoDomain {
		t.Errorf("an empty list: %+v", none)
	}
}

// TestObjectsAdopt has lists with domains of worker pods, of a NodeSet without pods, and of others.
func TestObjectsAdopt(t *testing.T) {
	const (
		classes = `{"kind":"DeviceClass","metadata":{"name":"compute-domain-default-channel.nvidia.com"}},{"kind":"DeviceClass","metadata":{"name":"compute-domain-daemon.nvidia.com"}}`
		slurm   = `{"kind":"ComputeDomain","metadata":{"namespace":"slurm","name":"a","uid":"u1"},"spec":{"numNodes":18,"channel":{"allocationMode":"All","resourceClaimTemplate":{"name":"t"}}}}`
		team    = `{"kind":"ComputeDomain","metadata":{"namespace":"team","name":"b","uid":"u2"},"spec":{"numNodes":0,"channel":{"resourceClaimTemplate":{"name":"t"}}}}`
		going   = `{"kind":"ComputeDomain","metadata":{"namespace":"slurm","name":"a","uid":"u1","deletionTimestamp":"2026-11-28T00:00:00Z"},"spec":{"numNodes":0,"channel":{"resourceClaimTemplate":{"name":"t"}}}}`
		set     = `{"apiVersion":"slinky.slurm.net/v1beta1","kind":"NodeSet","metadata":{"namespace":"slurm","name":"gb200"},"spec":{"template":{"spec":{"resourceClaims":[{"name":"c","resourceClaimTemplateName":"t"}]}}}}`
	)
	pod := func(namespace, labels string) string {
		return `{"kind":"Pod","metadata":{"namespace":"` + namespace + `","name":"w","labels":{` + labels + `}},"spec":{"nodeName":"n1","resourceClaims":[{"name":"c","resourceClaimTemplateName":"t"}]}}`
	}
	const (
		worker, job = `"app.kubernetes.io/name":"slurmd","app.kubernetes.io/component":"worker"`, `"app":"slurmd"`
		publisher   = `{"kind":"Deployment","metadata":{"namespace":"quoin-system","name":"quoin-publisher","labels":{"app.kubernetes.io/name":"quoin","app.kubernetes.io/component":"publisher"}}}`
		imexPod     = `"app.kubernetes.io/name":"quoin","app.kubernetes.io/component":"imex"`
		running     = `{"kind":"ResourceClaim","metadata":{"namespace":"team","name":"c"},"spec":{"devices":{"config":[{"opaque":{"driver":"compute-domain.nvidia.com","parameters":{"kind":"ComputeDomainChannelConfig","domainID":"u2"}}}]}},
 "status":{"reservedFor":[{"resource":"pods","name":"w","uid":"p"}]}}`
		another = "NoDomain: ComputeDomain quoin-node/quoin is not created, because there is another ComputeDomain"
	)
	holder := complete(t)
	holder.Join = imex.JoinHolder
	for _, tt := range []struct {
		name       string
		items      []string
		join, says string
		uid        string
		config     imex.Config
	}{
		{"worker pods", []string{slurm, team, pod("slurm", worker)}, imex.JoinSlurmd, "", "u1", complete(t)},
		{"a NodeSet without pods", []string{slurm, set}, imex.JoinSlurmd, "", "u1", complete(t)},
		{"worker pods of two domains", []string{slurm, team, pod("slurm", worker), pod("team", worker)}, imex.JoinSlurmd, "Conflict: worker pods of Slurm claim channels of 2 ComputeDomains, slurm/a and team/b", "", complete(t)},
		{"a job's own domain", []string{team, running, pod("team", job), publisher}, imex.JoinHolder, another, "", complete(t)},
		{"a job's own domain, and nobody says whose", []string{team, publisher}, imex.JoinHolder, another, "", complete(t)},
		{"a job's own domain without a publisher", []string{team, pod("team", job)}, imex.JoinNone, "NoDomain: there is no ComputeDomain that jobs of Slurm share", "", complete(t)},
		{"a job's own domain is gone before the job", []string{running, pod("team", job), publisher}, imex.JoinHolder, another, "", complete(t)},
		{"a job's own domain beside holders", []string{team, running, pod("team", job), publisher}, imex.JoinHolder, "NoDomain: there is no ComputeDomain quoin-node/quoin", "", holder},
		{"a template of another namespace", []string{team, pod("slurm", worker), publisher}, imex.JoinHolder, another, "", complete(t)},
		{"a template that no domain has", []string{pod("slurm", worker), publisher}, imex.JoinHolder, "NoDomain: ComputeDomain quoin-node/quoin is not created, because worker pods of Slurm claim by the template slurm/t, and it is not known whether that gives channels", "", complete(t)},
		{"a template that no domain has, with holders", []string{pod("slurm", worker), publisher}, imex.JoinHolder, "NoDomain: there is no ComputeDomain quoin-node/quoin", "", holder},
		{"holders whose domain was deleted", []string{pod("quoin-node", imexPod), publisher}, imex.JoinHolder, "NoDomain: ComputeDomain quoin-node/quoin is not created, because pod quoin-node/w holds a channel of another domain, or of one that was deleted, on node n1", "", complete(t)},
		{"nothing at all", nil, imex.JoinNone, "NoDomain: there is no ComputeDomain at all", "", complete(t)},
		{"a publisher that has just begun", []string{publisher}, imex.JoinHolder, "NoDomain: there is no ComputeDomain quoin-node/quoin", "", complete(t)},
		{"worker pods of a domain that is deleted", []string{going, pod("slurm", worker)}, imex.JoinSlurmd, "DomainDeleting: ComputeDomain slurm/a is being deleted, which ends the IMEX daemons of all its nodes", "u1", complete(t)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			seen := listOf(t, tt.config, `{"items":[`+strings.Join(append(tt.items, classes), ",")+`]}`)
			said := seen.Domain.Problem.Reason + ": " + seen.Domain.Problem.Message
			if seen.Join != tt.join || seen.Domain.UID != tt.uid || tt.says == "" && said != ": " || !strings.HasPrefix(said, tt.says) {
				t.Errorf("%s, %+v", seen.Join, seen.Domain)
			}
		})
	}
}

func FuzzObjects(f *testing.F) {
	f.Add("Pod", `{"spec":{"resourceClaims":[{}]}}`)
	f.Add("NodeSet", `{"kind":"NodeSet","spec":{"template":{"spec":{"resourceClaims":[7,{"resourceClaimTemplateName":7}]}}}}`)
	f.Add("ComputeDomain", `{"status":{"nodes":[null]}}`)
	f.Fuzz(func(t *testing.T, kind, text string) {
		l := NewObjects(complete(t))
		_ = l.Add(kind, []byte(text))
		if l.Seen() == nil {
			t.Fatal("nothing is seen")
		}
	})
}
