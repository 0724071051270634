package computedomain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// What Delete leaves where it is.
var (
	// ErrInUse is of a domain of which a claim is reserved for a pod.
	ErrInUse = errors.New("in use")
	// ErrNotOurs is of a domain that Ensure has not made.
	ErrNotOurs = errors.New("not Quoin's")
)

// Delete deletes the ComputeDomain, if Ensure has made it. The driver would end
// the daemons of all nodes without a look, and with them every job that shares
// memory across nodes: as long as a claim of the domain is reserved nothing is
// deleted. What is watched is asked first, and then the API server.
func (c *Cluster) Delete(ctx context.Context) error {
	api := c.nvidia.ComputeDomains(c.config.Namespace)
	domain, err := api.Get(ctx, c.config.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("delete ComputeDomain %s: %w", c.key(), err)
	case domain.Labels[labelManagedBy] != managedBy:
		return fmt.Errorf("delete ComputeDomain %s: %w: it lacks the label %s=%s; delete it by hand when no job needs it", c.key(), ErrNotOurs, labelManagedBy, managedBy)
	}
	claims, _ := c.claims.all()
	if err := c.unused(domain.UID, claims); err != nil {
		return err
	}
	if claims, err = c.readClaims(ctx); err != nil {
		return fmt.Errorf("delete ComputeDomain %s: read the claims of it: %w", c.key(), err)
	}
	if err := c.unused(domain.UID, claims); err != nil {
		return err
	}
	err = api.Delete(ctx, c.config.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(domain.UID))})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete ComputeDomain %s: %w", c.key(), err)
	}
	c.log.Info("ComputeDomain deleted", "domain", c.key().String(), "uid", domain.UID)
	return nil
}

// mostNamed is how many claims an error names.
const mostNamed = 3

// unused refuses a domain of which a claim is reserved.
func (c *Cluster) unused(uid types.UID, claims map[types.NamespacedName]claimFacts) error {
	var used []string
	for key, claim := range claims {
		if claim.domain == string(uid) && len(claim.reserved) > 0 {
			used = append(used, fmt.Sprintf("%s for %s", key, claim.reserved[0].name))
		}
	}
	if len(used) == 0 {
		return nil
	}
	slices.Sort(used)
	n, more := len(used), ""
	if n > mostNamed {
		used, more = used[:mostNamed], " and more"
	}
	return fmt.Errorf("delete ComputeDomain %s: %w: %d claims of it are reserved, %s%s; end these pods first", c.key(), ErrInUse, n, strings.Join(used, ", "), more)
}

// readClaims asks for the channel claims as they are now.
func (c *Cluster) readClaims(ctx context.Context) (map[types.NamespacedName]claimFacts, error) {
	out := map[types.NamespacedName]claimFacts{}
	for page := (metav1.ListOptions{Limit: 500}); ; {
		list, err := c.kube.ResourceV1().ResourceClaims(metav1.NamespaceAll).List(ctx, page)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			if facts, ok := readClaim(&list.Items[i]); ok {
				out[types.NamespacedName{Namespace: list.Items[i].Namespace, Name: list.Items[i].Name}] = facts
			}
		}
		if page.Continue = list.Continue; page.Continue == "" {
			return out, nil
		}
	}
}
