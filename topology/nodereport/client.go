package nodereport

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/quoin-hpc/quoin/topology"
)

// Definition is the name of the CustomResourceDefinition.
const Definition = Resource + ".quoin.dev"

// ErrNoDefinition says that the API server does not know NodeReports.
var ErrNoDefinition = errors.New("the API server has no NodeReports: apply the CustomResourceDefinition " + Definition + " (manifests/plain/base/05-nodereports.yaml)")

// Client reads and writes NodeReports.
type Client struct {
	rest   rest.Interface
	params runtime.ParameterCodec
}

// NewClient returns a client of the API server of rc. Nothing is asked of the API server.
func NewClient(rc *rest.Config) (*Client, error) {
	version, err := schema.ParseGroupVersion(topology.APIVersion)
	if err != nil {
		return nil, fmt.Errorf("read the API version of NodeReports: %w", err)
	}
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(version.WithKind(topology.ReportKind), &Object{})
	scheme.AddKnownTypeWithName(version.WithKind(topology.ReportKind+"List"), &List{})
	metav1.AddToGroupVersion(scheme, version)
	own := rest.CopyConfig(rc)
	own.APIPath = "/apis"
	own.ContentConfig = rest.ContentConfig{ContentType: runtime.ContentTypeJSON, GroupVersion: &version, NegotiatedSerializer: serializer.NewCodecFactory(scheme).WithoutConversion()}
	client, err := rest.RESTClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("reach the API server for NodeReports: %w", err)
	}
	return &Client{client, runtime.NewParameterCodec(scheme)}, nil
}

// List returns the NodeReports.
func (c *Client) List(ctx context.Context, o metav1.ListOptions) (*List, error) {
	var out List
	err := c.rest.Get().Resource(Resource).VersionedParams(&o, c.params).Do(ctx).Into(&out)
	if apierrors.IsNotFound(err) {
		return nil, ErrNoDefinition
	}
	return &out, err
}

// Watch watches NodeReports.
func (c *Client) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	events, err := c.rest.Get().Resource(Resource).VersionedParams(&o, c.params).Watch(ctx)
	if apierrors.IsNotFound(err) {
		err = ErrNoDefinition
	}
	return events, err
}

// Get returns the NodeReport of a node. It returns nil if there is none.
func (c *Client) Get(ctx context.Context, node string) (*Object, error) {
	var out Object
	err := c.rest.Get().Resource(Resource).Name(node).Do(ctx).Into(&out)
	if apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read NodeReport %s: %w", node, err)
	}
	return &out, nil
}

// Put writes a report as the NodeReport that meta names. Without a resource version it
// creates the NodeReport. The API server leaves out facts that its definition does not know,
// and warns of them: agents may be newer than the definition.
func (c *Client) Put(ctx context.Context, report []byte, meta metav1.ObjectMeta, manager string) error {
	body, err := encode(report, meta)
	if err != nil {
		return fmt.Errorf("write NodeReport %s: %w", meta.Name, err)
	}
	request := c.rest.Post().Resource(Resource)
	if meta.ResourceVersion != "" {
		request = c.rest.Put().Resource(Resource).Name(meta.Name)
	}
	err = request.Param("fieldManager", manager).
		SetHeader("Content-Type", runtime.ContentTypeJSON).Body(body).Do(ctx).Error()
	if apierrors.IsNotFound(err) && meta.ResourceVersion == "" {
		err = ErrNoDefinition
	}
	if err != nil {
		return fmt.Errorf("write NodeReport %s: %w", meta.Name, err)
	}
	return nil
}

// ErrOwnOnly says that an admission policy refuses the reports of other nodes.
var ErrOwnOnly = errors.New("the API server takes the node's own report only")

// otherNode is a node that no site has.
const otherNode = "quoin-dry-run-other-node"

// TryOther asks the API server, by a dry run, to write the report of another node. It returns
// nil if the API server would write it, ErrOwnOnly if an admission policy refuses it, and
// another error if nobody knows.
func (c *Client) TryOther(ctx context.Context) error {
	body, err := encode([]byte(`{"apiVersion":"`+topology.APIVersion+`","kind":"`+topology.ReportKind+`","node":"`+otherNode+`"}`), metav1.ObjectMeta{Name: otherNode})
	if err == nil {
		err = c.rest.Post().Resource(Resource).Param("dryRun", metav1.DryRunAll).SetHeader("Content-Type", runtime.ContentTypeJSON).Body(body).Do(ctx).Error()
	}
	switch {
	case apierrors.IsAlreadyExists(err): // the policy would have been first
		return nil
	case err != nil && strings.Contains(err.Error(), "may write NodeReport"):
		return ErrOwnOnly
	case err != nil:
		return fmt.Errorf("try to write the report of another node: %w", err)
	}
	return nil
}
