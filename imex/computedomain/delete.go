package computedomain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	nvapi "sigs.k8s.io/dra-driver-nvidia-gpu/api/nvidia.com/resource/v1beta1"

	"github.com/quoin-hpc/quoin/imex"
)

// Why Delete deletes nothing.
var (
	// ErrNoDomain is where there is no domain, or not even their definition.
	ErrNoDomain = errors.New("nothing to delete")
	// ErrDeleting is of a domain that somebody has deleted already.
	ErrDeleting = errors.New("deleted already")
	// ErrInUse is of a domain of which a claim is reserved for a pod.
	ErrInUse = errors.New("in use")
	// ErrNotOurs is of a domain that Ensure has not made.
	ErrNotOurs = errors.New("not Quoin's")
)

// deleteTries is how often Delete looks anew at a domain that has changed meanwhile.
const deleteTries = 5

// Delete deletes the ComputeDomain, if Ensure has made it, and returns its UID. The
// driver would end the daemons of all nodes without a look, and with them every job
// that shares memory across nodes: as long as a claim of the domain is reserved
// nothing is deleted. A dry run asks the API server all the same, and changes
// nothing. Delete needs no Run.
//
// The domain that is deleted is the one that was looked at, unchanged: no node has
// joined since. The API cannot tie that to claims. A pod that gets its claim
// reserved in the milliseconds between the list of claims and the deletion is not
// seen; its claim is not prepared any more, so that no job runs in it yet.
func (c *Cluster) Delete(ctx context.Context, dryRun bool) (uid string, err error) {
	for range deleteTries {
		if uid, err = c.deleteOnce(ctx, dryRun); !apierrors.IsConflict(err) {
			break
		}
	}
	if err != nil {
		return "", fmt.Errorf("delete ComputeDomain %s: %w", c.key(), err)
	}
	return uid, nil
}

func (c *Cluster) deleteOnce(ctx context.Context, dryRun bool) (string, error) {
	api := c.nvidia.ComputeDomains(c.config.Namespace)
	domain, err := api.Get(ctx, c.config.Name, metav1.GetOptions{})
	if err != nil {
		return "", notThere(err)
	}
	if err := c.deletable(ctx, domain); err != nil {
		return "", err
	}
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &domain.UID, ResourceVersion: &domain.ResourceVersion}}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	if err := api.Delete(ctx, c.config.Name, options); err != nil {
		return "", notThere(err)
	}
	return string(domain.UID), nil
}

// notThere tells apart why the API server has not found the domain. Other errors
// stay as they are.
func notThere(err error) error {
	switch {
	case !apierrors.IsNotFound(err):
		return err
	case apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return fmt.Errorf("%w: the API server does not know ComputeDomains (%s): NVIDIA's DRA driver is not installed", ErrNoDomain, nvapi.SchemeGroupVersion)
	}
	return fmt.Errorf("%w: there is none of that name", ErrNoDomain)
}

// deletable refuses a domain that is not to be deleted now.
func (c *Cluster) deletable(ctx context.Context, domain *nvapi.ComputeDomain) error {
	switch {
	case domain.Labels[labelManagedBy] != managedBy:
		return fmt.Errorf("%w: it lacks the label %s=%s; delete it by hand when no job needs it", ErrNotOurs, labelManagedBy, managedBy)
	case domain.DeletionTimestamp != nil:
		return fmt.Errorf("%w: since %s; it is gone when no node has it any more", ErrDeleting, domain.DeletionTimestamp.UTC().Format(time.RFC3339))
	}
	claims, err := c.kube.ResourceV1().ResourceClaims(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("read the claims of it: %w", err)
	}
	var pods []string
	for i := range claims.Items {
		claim := &claims.Items[i]
		if facts, channel := readClaim(claim); channel && facts.domain == string(domain.UID) {
			for _, r := range facts.reserved {
				pods = append(pods, claim.Namespace+"/"+r.name)
			}
		}
	}
	if len(pods) > 0 {
		return fmt.Errorf("%w: claims of it are reserved for %s", ErrInUse, podsText(pods))
	}
	return nil
}

// mostNamed is how many pods an error names.
const mostNamed = 5

func podsText(pods []string) string {
	slices.Sort(pods)
	text := "pod "
	if len(pods) > 1 {
		text = "pods "
	}
	return text + imex.ListUpTo(mostNamed, pods)
}
