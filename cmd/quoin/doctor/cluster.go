package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/quoin-hpc/quoin/cmd/quoin/session"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology/nodereport"
)

// The names of objects that are looked for.
const (
	reportsDefinition     = nodereport.Definition
	controllersDefinition = "controllers.slinky.slurm.net"
)

// Cluster is what is seen of a cluster.
type Cluster struct {
	// Version is the API server's, such as v1.36.3.
	Version string
	// Ahead is how much the clock here is ahead of the API server's.
	Ahead time.Duration
	// Objects are by resource, such as controllers. NodeReports have names and labels only, and
	// Nodes have their taints and conditions too.
	Objects map[string][]unstructured.Unstructured
	// Missing has the error of each resource that could not be listed. A kind that the API
	// server does not know is in neither.
	Missing map[string]error
	// Forgery is what the API server says if an agent's token writes another node's report.
	// Nil means that it would be written.
	Forgery error
	// Rights are what Quoin's accounts may do.
	Rights []right
	// Kubectl and Helm begin the commands that are advised.
	Kubectl, Helm string
	// Now is the time of the look.
	Now time.Time
}

// resource is what is listed of a kind.
type resource struct {
	schema.GroupVersionResource
	// names says that names and labels are enough, and the taints and conditions of Nodes. There is one
	// object for each node.
	names bool
	// only are names of objects. Empty: all.
	only []string
}

var resources = []resource{
	{schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, true, nil},
	{schema.GroupVersionResource{Group: "quoin.dev", Version: "v1alpha1", Resource: "nodereports"}, true, nil},
	{schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}, false, []string{reportsDefinition, controllersDefinition}},
	{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"}, false, nil},
	{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, false, nil},
	{schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}, false, []string{"quoin-publisher"}},
	{schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, false, []string{session.ConfigName}},
	{schema.GroupVersionResource{Group: "resource.k8s.io", Version: "v1", Resource: "deviceclasses"}, false, nil},
	{schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"}, false, nil},
	{schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings"}, false, nil},
	{schema.GroupVersionResource{Group: "slinky.slurm.net", Version: "v1beta1", Resource: "controllers"}, false, nil},
	{schema.GroupVersionResource{Group: "slinky.slurm.net", Version: "v1beta1", Resource: "nodesets"}, false, nil},
	{schema.GroupVersionResource{Group: "nvidia.com", Version: "v1", Resource: "clusterpolicies"}, false, nil},
	{schema.GroupVersionResource{Group: "resource.nvidia.com", Version: "v1beta1", Resource: "computedomains"}, false, nil},
}

// Gather looks at the cluster, all but the ConfigMaps of publications. It returns an error only
// if the API server does not answer.
func Gather(ctx context.Context, rc *rest.Config) (*Cluster, error) {
	c := &Cluster{Objects: map[string][]unstructured.Unstructured{}, Missing: map[string]error{}, Now: time.Now()}
	rc = rest.CopyConfig(rc)
	rc.QPS, rc.Burst = 200, 200
	if err := c.greet(ctx, rc); err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(rc)
	if err != nil {
		return nil, err
	}
	names, err := metadata.NewForConfig(rc)
	if err != nil {
		return nil, err
	}
	nodes, err := nodeClient(rc)
	if err != nil {
		return nil, err
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, r := range resources {
		wg.Go(func() {
			all, err := r.list(ctx, objects, names, nodes)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				c.Objects[r.Resource] = all
			case !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err):
				c.Missing[r.Resource] = fmt.Errorf("list %s: %w", r.Resource, err)
			}
		})
	}
	wg.Wait()
	c.Forgery = c.forge(ctx, rc)
	c.askRights(ctx, rc)
	return c, nil
}

// greet asks for the version and the time.
func (c *Cluster) greet(ctx context.Context, rc *rest.Config) error {
	client, err := rest.HTTPClientFor(rc)
	if err != nil {
		return err
	}
	base, _, err := rest.DefaultServerUrlFor(rc)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath("/version").String(), nil)
	if err != nil {
		return err
	}
	began := time.Now()
	answer, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("ask the API server: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	took := time.Since(began)
	if at, err := http.ParseTime(answer.Header.Get("Date")); err == nil { // whole seconds
		if ahead := began.Add(took/2).Sub(at) - time.Second/2; ahead.Abs() > took+time.Second {
			c.Ahead = ahead.Round(time.Second)
		}
	}
	version, err := versionOf(answer.Body)
	if err != nil {
		return fmt.Errorf("ask the API server for its version: status %s: %w", answer.Status, err)
	}
	c.Version = version
	return nil
}

// list returns the objects of a kind.
func (r *resource) list(ctx context.Context, objects dynamic.Interface, names metadata.Interface, nodes kubernetes.Interface) (all []unstructured.Unstructured, err error) {
	switch {
	case r.Resource == "nodes":
		return listNodes(ctx, nodes)
	case r.names:
		return listNames(ctx, names, r.GroupVersionResource)
	}
	selectors := []string{""}
	if r.only != nil {
		selectors = nil
		for _, name := range r.only {
			selectors = append(selectors, "metadata.name="+name)
		}
	}
	for _, selector := range selectors {
		out, err := objects.Resource(r.GroupVersionResource).List(ctx, metav1.ListOptions{FieldSelector: selector})
		if err != nil {
			return nil, err
		}
		all = append(all, out.Items...)
	}
	return all, nil
}

func listNames(ctx context.Context, client metadata.Interface, r schema.GroupVersionResource) ([]unstructured.Unstructured, error) {
	out, err := client.Resource(r).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, err
	}
	all := make([]unstructured.Unstructured, len(out.Items))
	for i := range out.Items {
		all[i].Object = map[string]any{}
		all[i].SetName(out.Items[i].Name)
		all[i].SetLabels(out.Items[i].Labels)
	}
	return all, nil
}

// nodeClient reads Nodes in the API server's short form: a large cluster has many.
func nodeClient(rc *rest.Config) (kubernetes.Interface, error) {
	rc = rest.CopyConfig(rc)
	rc.ContentType, rc.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	return kubernetes.NewForConfig(rc)
}

// listNodes returns names, labels, taints and conditions of the Nodes.
func listNodes(ctx context.Context, client kubernetes.Interface) ([]unstructured.Unstructured, error) {
	out, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, err
	}
	all := make([]unstructured.Unstructured, len(out.Items))
	for i := range out.Items {
		n := &out.Items[i]
		var conditions, taints []any
		for _, c := range n.Status.Conditions {
			conditions = append(conditions, map[string]any{"type": string(c.Type), "status": string(c.Status), "reason": c.Reason, "message": c.Message})
		}
		for _, t := range n.Spec.Taints {
			taints = append(taints, map[string]any{"key": t.Key, "value": t.Value, "effect": string(t.Effect)})
		}
		all[i].Object = map[string]any{"spec": map[string]any{"taints": taints}, "status": map[string]any{"conditions": conditions}}
		all[i].SetName(n.Name)
		all[i].SetLabels(n.Labels)
	}
	return all, nil
}

// gatherPublications adds the ConfigMaps of publications, and all ConfigMaps that Controllers name.
func (c *Cluster) gatherPublications(ctx context.Context, rc *rest.Config, s *Site) error {
	client, err := dynamic.NewForConfig(rc)
	if err != nil {
		return err
	}
	wanted, controllers := map[plandoc.Location]bool{}, checks{c}.controllers()
	for _, p := range s.Publications {
		wanted[p.Place()] = true
		if loader, at := p.Loader(controllers); loader == publication.LoaderKnown {
			for _, place := range controllerMaps(c.named("controllers", at.Namespace, at.Name)) {
				wanted[place] = true
			}
		}
	}
	for place := range wanted {
		cm, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(place.Namespace).Get(ctx, place.Name, metav1.GetOptions{})
		switch {
		case err == nil:
			c.Objects["configmaps"] = append(c.Objects["configmaps"], *cm)
		case !apierrors.IsNotFound(err):
			c.Missing["configmaps"] = fmt.Errorf("read ConfigMap %s: %w", place, err)
		}
	}
	return nil
}

// errNotTried says that nobody knows whether a forged report would be written.
var errNotTried = errors.New("not tried")

// forge tries, without writing, to write the report of another node as an agent whose token
// is bound to a node.
func (c *Cluster) forge(ctx context.Context, rc *rest.Config) error {
	agent := c.own("daemonsets", "agent")
	if agent == nil || c.Objects["nodereports"] == nil {
		return errNotTried
	}
	rc = rest.CopyConfig(rc)
	rc.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + agent.GetNamespace() + ":" + serviceAccountOf(agent),
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + agent.GetNamespace(), "system:authenticated"},
		Extra:  map[string][]string{"authentication.kubernetes.io/node-name": {"quoin-doctor-a"}}}
	client, err := nodereport.NewClient(rc)
	if err != nil {
		return errNotTried
	}
	return client.TryOther(ctx)
}
