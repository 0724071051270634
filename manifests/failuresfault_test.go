package manifests_test

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	nvapi "sigs.k8s.io/dra-driver-nvidia-gpu/api/nvidia.com/resource/v1beta1"
	nvclient "sigs.k8s.io/dra-driver-nvidia-gpu/pkg/nvidia.com/clientset/versioned/typed/resource/v1beta1"

	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/imexrig"
)

const driverNamespace = "nvidia-dra-driver-gpu"

// label writes a label of nodes, or takes it away if the value is nil.
func (f *failures) label(key string, value any, nodes ...string) {
	f.t.Helper()
	for _, node := range nodes {
		f.must(f.cluster.Objects().Patch(f.t.Context(), "nodes", "", node, withLabel(key, value)))
	}
}

// remove deletes objects, and waits until they are gone.
func (f *failures) remove(resource, namespace string, names ...string) {
	f.t.Helper()
	f.must(f.cluster.Objects().Delete(f.t.Context(), resource, namespace, names...))
}

func (f *failures) nvidia() *nvclient.ResourceV1beta1Client {
	f.t.Helper()
	client, err := nvclient.NewForConfig(f.cluster.Config())
	if err != nil {
		f.t.Fatal(err)
	}
	return client
}

// domain is the ComputeDomain as it is now.
func (f *failures) domain() *nvapi.ComputeDomain {
	f.t.Helper()
	d, err := f.nvidia().ComputeDomains("quoin-node").Get(f.t.Context(), "quoin", metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return d
}

// statusIs expects the status of the whole domain, by which nobody is to go.
func (f *failures) statusIs(want string) {
	f.t.Helper()
	await.Until(f.t, "the domain's status "+want, func() bool { return f.domain().Status.Status == want })
}

// holder is the pod that holds a node's channel.
func (f *failures) holder(node string) *corev1.Pod {
	f.t.Helper()
	pods, err := f.cluster.Client().CoreV1().Pods("quoin-node").List(f.t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=imex", FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		f.t.Fatal(err)
	}
	if len(pods.Items) == 0 {
		return &corev1.Pod{}
	}
	return &pods.Items[0]
}

// takeLabel has a node's holder deleted by force, and the kubelet find out when the
// next one has its channel: the old claim's end takes the label that is the new
// one's by then.
func (f *failures) takeLabel(node string) {
	f.t.Helper()
	f.fleet.Node(node).FallBehind(true)
	old := f.holder(node)
	if err := f.cluster.RemovePod(f.t.Context(), old.Namespace, old.Name); err != nil {
		f.t.Fatal(err)
	}
	await.Until(f.t, "another holder that runs", func() bool {
		next := f.holder(node)
		return next.UID != old.UID && slices.ContainsFunc(next.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
	})
	f.fleet.Node(node).FallBehind(false)
}

// claimElsewhere has a pod in another namespace claim a channel of the domain, as
// somebody does who copies the template.
func (f *failures) claimElsewhere(node string) {
	f.t.Helper()
	config, err := json.Marshal(nvapi.ComputeDomainChannelConfig{TypeMeta: metav1.TypeMeta{APIVersion: nvapi.SchemeGroupVersion.String(), Kind: nvapi.ComputeDomainChannelConfigKind},
		DomainID: string(f.domain().UID), AllocationMode: nvapi.ComputeDomainChannelAllocationModeAll})
	if err != nil {
		f.t.Fatal(err)
	}
	name := "foreign"
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
		Requests: []resourcev1.DeviceRequest{{Name: "channel", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "compute-domain-default-channel.nvidia.com"}}},
		Config: []resourcev1.DeviceClaimConfiguration{{Requests: []string{"channel"}, DeviceConfiguration: resourcev1.DeviceConfiguration{
			Opaque: &resourcev1.OpaqueDeviceConfiguration{Driver: imexrig.DriverName, Parameters: runtime.RawExtension{Raw: config}}}}},
	}}}
	if _, err := f.cluster.Client().ResourceV1().ResourceClaims("default").Create(f.t.Context(), claim, metav1.CreateOptions{}); err != nil {
		f.t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: corev1.PodSpec{
		NodeSelector:   map[string]string{corev1.LabelHostname: node},
		Containers:     []corev1.Container{{Name: "main", Image: "main", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "channel"}}}}},
		ResourceClaims: []corev1.PodResourceClaim{{Name: "channel", ResourceClaimName: &name}},
	}}
	if _, err := f.cluster.Client().CoreV1().Pods("default").Create(f.t.Context(), pod, metav1.CreateOptions{}); err != nil {
		f.t.Fatal(err)
	}
}

// editClique changes the entries of the domain in a rack, against those who write
// them at the same time.
func (f *failures) editClique(rack int, change func(entries []*nvapi.ComputeDomainDaemonInfo) []*nvapi.ComputeDomainDaemonInfo) {
	f.t.Helper()
	api, name := f.nvidia().ComputeDomainCliques(driverNamespace), string(f.domain().UID)+"."+imexrig.RackClique(rack)
	await.Until(f.t, "written clique "+name, func() bool {
		clique, err := api.Get(f.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return false
		}
		clique.Daemons = change(clique.Daemons)
		_, err = api.Update(f.t.Context(), clique, metav1.UpdateOptions{})
		return err == nil
	})
}

// share gives the entry of one node what another's has.
func share(from, to string, what func(from, to *nvapi.ComputeDomainDaemonInfo)) func([]*nvapi.ComputeDomainDaemonInfo) []*nvapi.ComputeDomainDaemonInfo {
	return func(entries []*nvapi.ComputeDomainDaemonInfo) []*nvapi.ComputeDomainDaemonInfo {
		at := func(node string) *nvapi.ComputeDomainDaemonInfo {
			return entries[slices.IndexFunc(entries, func(e *nvapi.ComputeDomainDaemonInfo) bool { return e.NodeName == node })]
		}
		what(at(from), at(to))
		return entries
	}
}

// without takes the entry of a node out.
func without(node string) func([]*nvapi.ComputeDomainDaemonInfo) []*nvapi.ComputeDomainDaemonInfo {
	return func(entries []*nvapi.ComputeDomainDaemonInfo) []*nvapi.ComputeDomainDaemonInfo {
		return slices.DeleteFunc(entries, func(e *nvapi.ComputeDomainDaemonInfo) bool { return e.NodeName == node })
	}
}

// must fails the test on an error.
func (f *failures) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}
