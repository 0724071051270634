package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/quoin-hpc/quoin/imex/computedomain"
)

// newIMEXCommand is the parent of what an admin does to the IMEX domain.
func newIMEXCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "imex",
		Short: "Do what an admin does to the cluster's IMEX domain",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newIMEXDeleteCommand())
	return cmd
}

// imexDeleteOptions are the flags of quoin imex delete.
type imexDeleteOptions struct {
	settings
	kubeconfig string
	dryRun     bool
}

func newIMEXDeleteCommand() *cobra.Command {
	var o imexDeleteOptions
	cmd := &cobra.Command{
		Use:   "delete",
		Short: "Delete the ComputeDomain, unless a pod holds a channel of it",
		Long: `Delete the ComputeDomain that the publisher has made. The driver then ends the IMEX
daemons of all nodes, and with them every job across nodes that shares GPU memory:
so nothing is deleted as long as a claim of the domain is reserved for a pod.

A publisher that runs with imex.join holder or slurmd makes the domain anew at once.
That is wanted after DomainDiffers, for a spec cannot be changed. To be rid of the
domain set imex.join to none, or take the publisher away, first.

It needs to get and delete ComputeDomains in imex.namespace, and to list
ResourceClaims everywhere. Exit status: 0 deleted, or there is none; 1 refused;
2 trouble.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return deleteIMEX(cmd.Context(), cmd.OutOrStdout(), &o)
		},
	}
	f := cmd.Flags()
	o.addFlags(cmd)
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "`file` that says how to reach the API server; default: as kubectl finds it")
	f.BoolVar(&o.dryRun, "dry-run", false, "only say what would be done")
	return cmd
}

// deleteTimeout is the longest that the API server may take to answer.
const deleteTimeout = time.Minute

func deleteIMEX(ctx context.Context, stdout io.Writer, o *imexDeleteOptions) error {
	c, err := o.load()
	if err != nil {
		return err
	}
	rc, err := adminConfig(o.kubeconfig)
	if err != nil {
		return err
	}
	rc.Timeout, rc.UserAgent = deleteTimeout, "quoin-imex-delete"
	cluster, err := computedomain.NewCluster(rc, c.IMEX, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	name := c.IMEX.Namespace + "/" + c.IMEX.Name
	uid, err := cluster.Delete(ctx, o.dryRun)
	switch {
	case err == nil:
		sayDeleted(stdout, name, uid, o.dryRun)
		return nil
	case errors.Is(err, computedomain.ErrNoDomain), errors.Is(err, computedomain.ErrDeleting):
		fmt.Fprintln(stdout, err)
		return nil
	case errors.Is(err, computedomain.ErrInUse):
		fmt.Fprintf(stdout, "refused: %v\n%s", err, endPods)
		return exitError(1)
	case errors.Is(err, computedomain.ErrNotOurs):
		fmt.Fprintf(stdout, "refused: %v\n", err)
		return exitError(1)
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return fmt.Errorf("%w; nothing was deleted: it needs to get and delete computedomains.resource.nvidia.com in namespace %s and to list resourceclaims in all, see --kubeconfig", err, c.IMEX.Namespace)
	case apierrors.IsConflict(err):
		return fmt.Errorf("%w; nothing was deleted: nodes join or leave it just now, try again", err)
	}
	return err
}

// endPods is what to do where pods hold channels.
const endPods = `  Its end would end the IMEX daemons of all nodes and the jobs across nodes there. When no
  such job runs or is to start, end the pods: those of the DaemonSet quoin-imex by
  deleting the DaemonSet, Slurm's workers by scaling their NodeSet down. Then try again.
`

func sayDeleted(w io.Writer, name, uid string, dryRun bool) {
	does := "deleted"
	if dryRun {
		does = "would be deleted, for no claim of it is reserved; nothing was done"
	}
	fmt.Fprintf(w, "ComputeDomain %s (uid %s): %s\n", name, uid, does)
	fmt.Fprintln(w, `  A publisher that runs with imex.join holder or slurmd makes it anew, as is wanted after
  DomainDiffers. To be rid of it set imex.join to none, or take the publisher away, first.`)
}

// adminConfig returns how to reach the API server as kubectl finds it: by the file,
// by $KUBECONFIG or by ~/.kube/config.
func adminConfig(path string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	rc, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, errors.New("no kubeconfig: give --kubeconfig FILE, or set $KUBECONFIG")
	case err != nil:
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	return rc, nil
}
