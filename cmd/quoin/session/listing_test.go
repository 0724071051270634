package session

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/kube"
	"github.com/quoin-hpc/quoin/test/rig/kuberig"
)

// TestRealPages reads more nodes than a page has, kinds that the API server does not know, and
// a cluster in which the caller may read nothing.
func TestRealPages(t *testing.T) {
	t.Parallel()
	const nodes = 1101
	c := kuberig.StartTest(t)
	var wg sync.WaitGroup
	for k := range 4 {
		wg.Go(func() {
			for i := k; i < nodes; i += 4 {
				if _, err := c.Client().CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%04d", i)}}, metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for name, lists := range map[string][]string{"nodes": slices.Concat(nodeLists, podLists([]inputs.NamingPods{{Namespace: "slurm", Text: "a=b,c in (d, e)"}})), "domain": domainLists} {
		in, err := openLists(t.Context(), c.Config(), lists)
		if err != nil {
			t.Fatal(err)
		}
		snap, err := new(inputs.ListReader).Read("the cluster", in)
		if err != nil || len(snap.Nodes) != nodes { // the reader refuses a node that comes twice
			t.Errorf("%s: %v, want %d nodes", name, err, nodes)
		}
	}
	r := inputs.NewRules(inputs.Config{SlurmNames: "pod:worker in (true)", Namespace: "default", ParseSelector: kube.ParseSelector}, func(key, message string) { t.Fatal(key, message) })
	for i, worker := range []string{"true", "false"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("worker-", i), Labels: map[string]string{"worker": worker}},
			Spec: corev1.PodSpec{NodeName: fmt.Sprintf("n%04d", i), Containers: []corev1.Container{{Name: "slurmd", Image: "slurmd"}}}}
		if _, err := c.Client().CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	naming := inputs.NamingPodsOf(&r)
	in, err := openLists(t.Context(), c.Config(), slices.Concat(nodeLists, podLists(naming)))
	if err != nil {
		t.Fatal(err)
	}
	snap, err := (&inputs.ListReader{Pods: naming}).Read("the cluster", in)
	if err != nil {
		t.Fatal(err)
	}
	if g := r.Gather(snap); len(g.Facts) != 1 || g.Facts[0].Name != "n0000" || g.Facts[0].SlurmName != "worker-0" {
		t.Errorf("names by pods: %+v", g.Facts)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "nobody"}}
	if _, err := c.Client().CoreV1().ServiceAccounts("default").Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := c.Token(t.Context(), "default", "nobody", "")
	if err != nil {
		t.Fatal(err)
	}
	nobody, err := clientcmd.BuildConfigFromFlags("", token)
	if err != nil {
		t.Fatal(err)
	}
	in, err = openLists(t.Context(), nobody, nodeLists)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := new(inputs.ListReader).Read("the cluster", in); err == nil || !strings.HasPrefix(cause(err).Error(), `list /api/v1/nodes: nodes is forbidden: User "system:serviceaccount:default:nobody" cannot list`) {
		t.Errorf("error %v", err)
	}
}
