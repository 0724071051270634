package computedomain

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	nvapi "sigs.k8s.io/dra-driver-nvidia-gpu/api/nvidia.com/resource/v1beta1"
	"sigs.k8s.io/dra-driver-nvidia-gpu/pkg/nvidia.com/clientset/versioned/scheme"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/imex/computedomain/apihealth"
	"github.com/quoin-hpc/quoin/slurmconf/again"
	"github.com/quoin-hpc/quoin/topology"
)

// fieldManager owns the fields that Ensure writes. The label marks the domains that it
// creates.
const (
	fieldManager   = "quoin-publisher"
	labelManagedBy = "app.kubernetes.io/managed-by"
	managedBy      = "quoin"
)

// Ensure returns what is seen, all but Nodes and Claims, and creates the ComputeDomain if neither it
// nor another one that may be meant is there. It adopts an existing domain, or refuses it: Problem says why a
// domain cannot be used. It asks nothing of the API server while the domain is there. If something has not been
// read yet, the error says why, and Changes wakes when it has. If creating the domain fails, Changes wakes when
// it is time to try again. If nodes join no domain, Ensure creates none.
func (c *Cluster) Ensure(ctx context.Context) (*imex.Observation, error) {
	seen, create, err := c.see()
	switch {
	case err != nil, !create:
		return seen, err
	case time.Since(c.refusal.at) < createPause:
		seen.Domain.Problem = c.refusal.why
		return seen, nil
	}
	created, err := c.create(ctx)
	if apierrors.IsAlreadyExists(err) { // and has not been seen yet
		created, err = c.nvidia.ComputeDomains(c.config.Namespace).Get(ctx, c.config.Name, metav1.GetOptions{})
	}
	c.refusal = refusal{}
	if err != nil {
		time.AfterFunc(createPause, func() { again.Notify(c.changes) })
		why := c.whyNot(err)
		if why.Reason == "" {
			return nil, fmt.Errorf("create ComputeDomain %s: %w", keyOf(c.config), err)
		}
		c.refusal = refusal{why, time.Now()}
		seen.Domain.Problem = why
		return seen, nil
	}
	facts, _ := readDomain(created)
	seen.Domain = domainOf(c.config, &facts, false)
	return seen, nil
}

// createPause is the time before creating the domain is tried again.
const createPause = 30 * time.Second

// create sends text: the driver's own type leaves out numNodes if it is 0, and older API
// servers require it.
func (c *Cluster) create(ctx context.Context) (*nvapi.ComputeDomain, error) {
	body, err := json.Marshal(map[string]any{
		"apiVersion": nvapi.SchemeGroupVersion.String(),
		"kind":       nvapi.ComputeDomainKind,
		"metadata":   metav1.ObjectMeta{Namespace: c.config.Namespace, Name: c.config.Name, Labels: map[string]string{labelManagedBy: managedBy}},
		"spec": map[string]any{"numNodes": wantedNumNodes, "channel": nvapi.ComputeDomainChannelSpec{
			ResourceClaimTemplate: nvapi.ComputeDomainResourceClaimTemplate{Name: c.config.ClaimTemplate}, AllocationMode: c.config.AllocationMode}},
	})
	if err != nil {
		return nil, err
	}
	created := &nvapi.ComputeDomain{}
	err = c.nvidia.RESTClient().Post().Namespace(c.config.Namespace).Resource("computedomains").
		VersionedParams(&metav1.CreateOptions{FieldManager: fieldManager}, scheme.ParameterCodec).
		SetHeader("Content-Type", runtime.ContentTypeJSON).Body(body).Do(ctx).Into(created)
	if err != nil {
		return nil, err
	}
	c.log.Info("ComputeDomain created", "domain", keyOf(c.config).String(), "uid", created.UID)
	return created, nil
}

// whyNot returns the problem if the API server has refused the domain, else none.
func (c *Cluster) whyNot(err error) topology.Finding {
	status, _ := err.(apierrors.APIStatus) //nolint:errorlint // as the client returns it
	why := func(reason, message, remedy string) topology.Finding {
		return topology.Finding{Reason: reason, Message: fmt.Sprintf("ComputeDomain %s %s", keyOf(c.config), message), Remedy: remedy}
	}
	switch {
	case apierrors.IsForbidden(err):
		return why(imex.NoDomain, fmt.Sprintf("is not there, and the publisher may not create it: %v", err), "allow the publisher to get, list, watch and create ComputeDomains, or create it by hand")
	case apierrors.IsNotFound(err) && status != nil && status.Status().Details != nil && status.Status().Details.Kind == "namespaces":
		return why(imex.NoDomain, "cannot be created: there is no such namespace", "create the namespace, or name another one by imex.namespace")
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsMethodNotSupported(err), apierrors.IsNotFound(err):
		return why(imex.NoDomain, fmt.Sprintf("is not there, and the API server refuses it: %v", err), "set the keys below imex to what the API server takes")
	}
	return topology.Finding{}
}

// Record records an event of the domain, whether it is there or not.
func (c *Cluster) Record(d *imex.Domain, warning bool, reason, message string) {
	of := corev1.ObjectReference{APIVersion: nvapi.SchemeGroupVersion.String(), Kind: nvapi.ComputeDomainKind, Namespace: d.Namespace, Name: d.Name, UID: types.UID(d.UID)}
	apihealth.Record(c.kube, c.log, of, fieldManager, warning, reason, message)
}
