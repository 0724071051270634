package manifests_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/quoin-hpc/quoin/test/rig/kuberig"
)

// admitted returns the ports of the workload's containers that its policies let others reach, as
// PORT/NAME. It fails if no policy selects the pods: then all ports are open.
func admitted(t *testing.T, policies []networkingv1.NetworkPolicy, w appsv1.Deployment) []string {
	t.Helper()
	var out []string
	selected := false
	for _, p := range policies {
		if p.Namespace != w.Namespace || !k8slabels.SelectorFromSet(p.Spec.PodSelector.MatchLabels).Matches(k8slabels.Set(w.Spec.Template.Labels)) {
			continue
		}
		selected = true
		for _, rule := range p.Spec.Ingress {
			for _, admits := range rule.Ports {
				for _, c := range w.Spec.Template.Spec.Containers {
					for _, port := range c.Ports {
						if admits.Port.StrVal == port.Name {
							out = append(out, port.Name)
						}
					}
				}
			}
		}
	}
	if !selected {
		t.Errorf("no NetworkPolicy selects the pods of %s %s", w.Kind, w.Name)
	}
	slices.Sort(out)
	return out
}

// TestNetworkPolicies holds that each pod of the chart is selected by a policy of its namespace, which
// admits just the ports of the configuration. Nothing here enforces a policy.
func TestNetworkPolicies(t *testing.T) {
	all := map[string][]string{"quoin-agent": {"health", "metrics"}, "quoin-publisher": {"health", "metrics"}, "quoin-imex": nil}
	tests := []struct {
		name string
		set  string
		want map[string][]string
	}{
		{"as it comes", "image.tag=v1", all},
		{"other namespace and ports", "nodeNamespace=nodes,config.agent.listen=:1234,config.publisher.healthListen=:1235", all},
		{"holders elsewhere", "config.imex.namespace=slurm", all},
		{"no metrics of agents", "config.agent.listen=", map[string][]string{"quoin-agent": {"health"}, "quoin-publisher": {"health", "metrics"}, "quoin-imex": nil}},
		{"nobody joins", "config.imex.join=none", map[string][]string{"quoin-agent": {"health", "metrics"}, "quoin-publisher": {"health", "metrics"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rendered, err := kuberig.Helm(t, "template", "quoin", "chart", "--namespace", "quoin-system", "--api-versions", driverAPI, "--set", kuberig.Image+","+tt.set)
			if err != nil {
				t.Fatal(err)
			}
			var policies []networkingv1.NetworkPolicy
			var workloads []appsv1.Deployment // a DaemonSet's fields that are read here are the same
			for document := range strings.SplitSeq("\n"+rendered, "\n---\n") {
				switch {
				case strings.Contains(document, "\nkind: NetworkPolicy\n"):
					var p networkingv1.NetworkPolicy
					if err := yaml.Unmarshal([]byte(document), &p); err != nil {
						t.Fatal(err)
					}
					policies = append(policies, p)
				case strings.Contains(document, "\nkind: Deployment\n"), strings.Contains(document, "\nkind: DaemonSet\n"):
					var w appsv1.Deployment
					if err := yaml.Unmarshal([]byte(document), &w); err != nil {
						t.Fatal(err)
					}
					workloads = append(workloads, w)
				}
			}
			got := map[string][]string{}
			for _, w := range workloads {
				got[w.Name] = admitted(t, policies, w)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("ports that others reach (-want +got):\n%s", diff)
			}
		})
	}
}
