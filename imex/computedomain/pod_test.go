package computedomain

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-hpc/quoin/imex"
)

func in(key string, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
}

func TestPinnedTo(t *testing.T) {
	field := func(r ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchFields: r}
	}
	label := func(r ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: r}
	}
	notIn := corev1.NodeSelectorRequirement{Key: "metadata.name", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"n1"}}
	tests := []struct {
		name     string
		selector map[string]string
		terms    []corev1.NodeSelectorTerm
		want     string
	}{
		{"nowhere", nil, nil, ""},
		{"by a selector", map[string]string{corev1.LabelHostname: "n1"}, nil, "n1"},
		{"as a DaemonSet does", nil, []corev1.NodeSelectorTerm{field(in("metadata.name", "n1"))}, "n1"},
		{"by a label", nil, []corev1.NodeSelectorTerm{label(in("gpu", "yes"), in(corev1.LabelHostname, "n1"))}, "n1"},
		{"to one twice", nil, []corev1.NodeSelectorTerm{field(in("metadata.name", "n1")), label(in(corev1.LabelHostname, "n1"))}, "n1"},
		{"to one of two", nil, []corev1.NodeSelectorTerm{field(in("metadata.name", "n1")), field(in("metadata.name", "n2"))}, ""},
		{"to two", nil, []corev1.NodeSelectorTerm{field(in("metadata.name", "n1", "n2"))}, ""},
		{"or elsewhere", nil, []corev1.NodeSelectorTerm{field(in("metadata.name", "n1")), label(in("gpu", "yes"))}, ""},
		{"to all but one", nil, []corev1.NodeSelectorTerm{field(notIn)}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec := &corev1.PodSpec{NodeSelector: tt.selector}
			if tt.terms != nil {
				spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: tt.terms}}}
			}
			if got := pinnedTo(spec); got != tt.want {
				t.Errorf("pinned to %q, want %q", got, tt.want)
			}
		})
	}
}

type readPodTest struct {
	name string
	pod  *corev1.Pod
	want podFacts
	keep bool
}

func TestReadPod(t *testing.T) {
	template, none := "template", (*string)(nil)
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Labels: holderLabels}, Spec: corev1.PodSpec{NodeName: "n1", ResourceClaims: []corev1.PodResourceClaim{
			{Name: "named", ResourceClaimName: new("shared")}, {Name: "made", ResourceClaimTemplateName: &template}, {Name: "unmade", ResourceClaimTemplateName: &template}, {Name: "needless", ResourceClaimTemplateName: &template}}},
			Status: corev1.PodStatus{ResourceClaimStatuses: []corev1.PodResourceClaimStatus{{Name: "made", ResourceClaimName: new("p-made-x7")}, {Name: "needless", ResourceClaimName: none}}}}
		change(p)
		return p
	}
	tests := []readPodTest{
		{"of the holder", pod(func(*corev1.Pod) {}), podFacts{uid: "u", owner: imex.OwnerHolder, node: "n1", claimed: true, claims: []string{"shared", "p-made-x7"}}, true},
		{"of Slurm, waiting", pod(func(p *corev1.Pod) {
			p.Labels, p.Spec.NodeName, p.Spec.NodeSelector = slurmdLabels, "", map[string]string{corev1.LabelHostname: "n2"}
		}), podFacts{uid: "u", owner: imex.OwnerSlurmd, node: "n2", claims: []string{"shared", "p-made-x7"}, templates: []string{template, template, template}}, true},
		{"of the publisher", pod(func(p *corev1.Pod) { p.Labels = map[string]string{labelName: holderName, labelComponent: "publisher"} }), podFacts{}, false},
		{"ended", pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), podFacts{}, false},
		{"without claims", pod(func(p *corev1.Pod) { p.Spec.ResourceClaims = nil }), podFacts{}, false},
	}
	unclaiming := podFacts{uid: "u", owner: imex.OwnerSlurmd, node: "n1"}
	worker := func(change func(*corev1.Pod)) *corev1.Pod {
		return pod(func(p *corev1.Pod) {
			p.Labels, p.Spec.ResourceClaims = slurmdLabels, nil
			change(p)
		})
	}
	tests = append(tests, []readPodTest{
		{"of Slurm without claims", worker(func(*corev1.Pod) {}), unclaiming, true},
		{"of Slurm without claims, nowhere yet", worker(func(p *corev1.Pod) {
			p.Spec.NodeName, p.Spec.NodeSelector = "", map[string]string{corev1.LabelHostname: "n2"}
		}), podFacts{}, false},
		{"of Slurm without claims, ended", worker(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), podFacts{}, false},
	}...)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, keep := readPod(tt.pod)
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(podFacts{})); keep != tt.keep || keep && diff != "" {
				t.Errorf("kept %v (-want +got):\n%s", keep, diff)
			}
		})
	}
}

func TestWorkersOn(t *testing.T) {
	pods := []*record[podFacts]{
		{facts: podFacts{owner: imex.OwnerSlurmd, node: "n1"}},
		{facts: podFacts{owner: imex.OwnerSlurmd, node: "n1", claims: []string{"c"}}},
		{facts: podFacts{owner: imex.OwnerSlurmd}},
		{facts: podFacts{owner: imex.OwnerHolder, node: "n2"}},
	}
	got := workersOn(pods)
	if diff := cmp.Diff(map[string]bool{"n1": true}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
