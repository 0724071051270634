package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"
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
	*Options
	// Kubernetes is the API server's release, such as v1.36.3.
	Kubernetes string
	// Ahead is how much the clock here is ahead of the API server's.
	Ahead time.Duration
	Objects
	// Missing has the error of each resource that could not be listed. A kind that the API
	// server does not know is in neither.
	Missing map[string]error
	// Forgery is what the API server says if an agent's token writes another node's report.
	// Nil means that it would be written.
	Forgery error
	// Rights are what Quoin's accounts may do.
	Rights []right
	// Now is the time of the look by the API server's clock.
	Now time.Time
}

// path is where a resource is listed, or where one object of it is read.
type path struct{ resource, at string }

// paths are what is looked at.
var paths = []path{
	{"nodes", "/api/v1/nodes"},
	{"nodereports", "/apis/quoin.dev/v1alpha1/nodereports"},
	{"customresourcedefinitions", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + reportsDefinition},
	{"customresourcedefinitions", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + controllersDefinition},
	{"daemonsets", "/apis/apps/v1/daemonsets"},
	{"deployments", "/apis/apps/v1/deployments"},
	{"leases", "/apis/coordination.k8s.io/v1/leases?fieldSelector=metadata.name=quoin-publisher"},
	{"configmaps", "/api/v1/configmaps?fieldSelector=metadata.name=" + session.ConfigName},
	{"deviceclasses", "/apis/resource.k8s.io/v1/deviceclasses"},
	{"validatingadmissionpolicies", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"},
	{"validatingadmissionpolicybindings", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"},
	{"controllers", "/apis/slinky.slurm.net/v1beta1/controllers"},
	{"nodesets", "/apis/slinky.slurm.net/v1beta1/nodesets"},
	{"clusterpolicies", "/apis/nvidia.com/v1/clusterpolicies"},
	{"computedomains", "/apis/resource.nvidia.com/v1beta1/computedomains"},
}

// Gather looks at the cluster. It returns an error only if the API server does not answer.
func Gather(ctx context.Context, o *Options) (*Cluster, error) {
	c := &Cluster{Options: o, Objects: Objects{}, Missing: map[string]error{}}
	rc := rest.CopyConfig(o.Cluster)
	rc.QPS, rc.Burst = 200, 200
	var err error
	if c.Kubernetes, c.Ahead, err = greet(ctx, rc); err != nil {
		return nil, err
	}
	c.Now = time.Now().Add(-c.Ahead)
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return nil, err
	}
	c.read(ctx, client, paths)
	c.read(ctx, client, c.maps())
	c.Forgery = errNotTried
	if agent := c.workload(componentAgent); agent != nil && c.knows("nodereports") {
		c.Forgery = forge(ctx, rc, accountOf(agent))
	}
	c.askRights(ctx, client)
	return c, nil
}

// read adds the objects of all paths.
func (c *Cluster) read(ctx context.Context, client kubernetes.Interface, paths []path) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, p := range paths {
		wg.Go(func() {
			err := session.Pages(ctx, client, p.at, func(text []byte) error {
				objects, err := objectsOf(p.resource, text)
				mu.Lock()
				defer mu.Unlock()
				c.Objects[p.resource] = append(c.Objects[p.resource], objects...)
				return err
			})
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				c.Missing[p.resource] = fmt.Errorf("list %s: %w", p.resource, err)
			}
		})
	}
	wg.Wait()
}

// objectsOf reads a page of a list, or an object. A large cluster has many Nodes and NodeReports, so what is not looked
// at is left out.
func objectsOf(resource string, text []byte) ([]unstructured.Unstructured, error) {
	if resource != "nodes" && resource != "nodereports" {
		read, _, err := unstructured.UnstructuredJSONScheme.Decode(text, nil, nil)
		switch o := read.(type) {
		case *unstructured.UnstructuredList:
			return o.Items, err
		case *unstructured.Unstructured:
			return []unstructured.Unstructured{*o}, err
		}
		return nil, err
	}
	var page struct {
		Items []struct {
			Metadata struct {
				Name   string
				Labels map[string]string
			}
			Spec   struct{ Taints []any }
			Status struct{ Conditions []any }
		}
	}
	err := json.Unmarshal(text, &page)
	all := make([]unstructured.Unstructured, len(page.Items))
	for i := range page.Items {
		o := &page.Items[i]
		all[i].Object = map[string]any{"spec": map[string]any{"taints": o.Spec.Taints}, "status": map[string]any{"conditions": o.Status.Conditions}}
		all[i].SetName(o.Metadata.Name)
		all[i].SetLabels(o.Metadata.Labels)
	}
	return all, err
}

// greet asks the API server for its release and the time. ahead is how much the clock here is ahead.
func greet(ctx context.Context, rc *rest.Config) (release string, ahead time.Duration, err error) {
	client, err := rest.HTTPClientFor(rc)
	if err != nil {
		return "", 0, err
	}
	base, _, err := rest.DefaultServerUrlFor(rc)
	if err != nil {
		return "", 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath("/version").String(), nil)
	if err != nil {
		return "", 0, err
	}
	began := time.Now()
	answer, err := client.Do(req)
	if err != nil {
		return "", 0, fmt.Errorf("ask the API server: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	took := time.Since(began)
	if at, err := http.ParseTime(answer.Header.Get("Date")); err == nil { // whole seconds
		if by := began.Add(took/2).Sub(at) - time.Second/2; by.Abs() > took+time.Second {
			ahead = by.Round(time.Second)
		}
	}
	var said version.Info
	err = json.NewDecoder(io.LimitReader(answer.Body, 1<<20)).Decode(&said)
	if err == nil && said.GitVersion == "" {
		err = errors.New("the answer has no gitVersion")
	}
	if err != nil {
		return "", 0, fmt.Errorf("ask the API server for its version: status %s: %w", answer.Status, err)
	}
	return said.GitVersion, ahead, nil
}

// maps are the paths of the ConfigMaps of publications, and of all ConfigMaps that Controllers name.
func (c *Cluster) maps() (all []path) {
	wanted, controllers := map[plandoc.Location]bool{}, c.controllers()
	for _, p := range c.Publications {
		wanted[p.Place()] = true
		if loader, at := p.Loader(controllers); loader == publication.LoaderKnown {
			for _, place := range controllerMaps(c.named("controllers", at.Namespace, at.Name)) {
				wanted[place] = true
			}
		}
	}
	for place := range wanted {
		all = append(all, path{"configmaps", "/api/v1/namespaces/" + place.Namespace + "/configmaps/" + place.Name})
	}
	return all
}

// errNotTried says that nobody knows whether a forged report would be written.
var errNotTried = errors.New("not tried")

// forge tries, without writing, to write the report of another node by the agents' account with a token
// that is bound to a node.
func forge(ctx context.Context, rc *rest.Config, account rest.ImpersonationConfig) error {
	rc = rest.CopyConfig(rc)
	rc.Impersonate = account
	rc.Impersonate.Extra = map[string][]string{"authentication.kubernetes.io/node-name": {"quoin-doctor-a"}}
	client, err := nodereport.NewClient(rc)
	if err != nil {
		return errNotTried
	}
	return client.TryOther(ctx)
}
