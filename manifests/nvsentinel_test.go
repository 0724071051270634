package manifests_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/kuberig"
)

// sentinelPolicies are the expressions of nvsentinel/values.yaml by policy.
func sentinelPolicies(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("nvsentinel/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values struct {
		Monitor struct {
			Policies []struct {
				Name      string
				Predicate struct{ Expression string }
			}
		} `yaml:"kubernetes-object-monitor"`
	}
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, p := range values.Monitor.Policies {
		out[p.Name] = p.Predicate.Expression
	}
	return out
}

// TestRealNVSentinelPolicies has the API server evaluate the expressions: a node's status
// for which one is true is refused.
func TestRealNVSentinelPolicies(t *testing.T) {
	c := kuberig.StartTest(t)
	nodes := c.Client().CoreV1().Nodes()
	node, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	policies := sentinelPolicies(t)
	if len(policies) != 3 {
		t.Fatalf("policies %v, want one for each condition", policies)
	}
	now := time.Now()
	for name, expression := range policies {
		denyWhere(t, c, name, strings.NewReplacer("resource.", "object.", "now -", "timestamp('"+now.UTC().Format(time.RFC3339)+"') -").Replace(expression))
	}
	refused := func(kind, reason string, status corev1.ConditionStatus, age time.Duration) string {
		next := node.DeepCopy()
		next.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeConditionType(kind), Status: status, Reason: reason, LastTransitionTime: metav1.NewTime(now.Add(-age))}}
		_, err := nodes.UpdateStatus(t.Context(), next, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return ""
		}
		return err.Error()
	}
	for _, kind := range []string{"QuoinFabricDegraded", "QuoinImexNotReady", "QuoinTopologyDrift"} { // taken up one by one
		await.Until(t, "the policy of "+kind+" is in force", func() bool { return refused(kind, "Bad", corev1.ConditionTrue, time.Hour) != "" })
	}
	const yes, no = corev1.ConditionTrue, corev1.ConditionFalse
	for _, tt := range []struct {
		kind, reason string
		status       corev1.ConditionStatus
		age          time.Duration
		want         string
	}{
		{"QuoinFabricDegraded", "FabricUnhealthy", yes, time.Hour, "quoin-fabric-degraded"},
		{"QuoinFabricDegraded", "FabricUnhealthy", yes, time.Minute, ""},
		{"QuoinFabricDegraded", "FabricHealthy", no, time.Hour, ""},
		{"QuoinImexNotReady", imex.ReasonFabricNotReady, yes, time.Hour, "quoin-imex-not-ready"},
		{"QuoinImexNotReady", imex.ReasonNotClaimed, yes, time.Hour, ""},
		{"QuoinImexNotReady", imex.ReasonWrongClaim, yes, time.Hour, ""},
		{"QuoinTopologyDrift", "PublishedDiffers", yes, time.Hour, "quoin-topology-drift"},
		{"Ready", "KubeletNotReady", yes, time.Hour, ""},
	} {
		got := refused(tt.kind, tt.reason, tt.status, tt.age)
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s %s for %s: %q, want %q", tt.kind, tt.reason, tt.age, got, tt.want)
		}
	}
}

// denyWhere refuses a Node's status for which the expression is true.
func denyWhere(t *testing.T, c *kuberig.Cluster, name, expression string) {
	t.Helper()
	api := c.Client().AdmissionregistrationV1()
	rule := admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{admissionv1.Update},
		Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"nodes/status"}}}}
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{rule}},
		Validations:      []admissionv1.Validation{{Expression: "!(" + expression + ")", Message: name}}}}
	if _, err := api.ValidatingAdmissionPolicies().Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}}
	if _, err := api.ValidatingAdmissionPolicyBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
