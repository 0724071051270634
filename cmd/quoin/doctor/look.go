package doctor

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/topology"
)

// Options say where to look.
type Options struct {
	// Config has the agent's keys, for a node.
	Config *config.Config
	// Kubeconfig says how to reach the API server. Empty: as kubectl does, or as a Pod.
	Kubeconfig string
	// Only is cluster or node. Empty: both, as far as there are both.
	Only string
	// HookDir is where slurmd runs the hook from.
	HookDir string
	// Version is the release of this program.
	Version string
}

// Look looks at the cluster and at this node.
func Look(ctx context.Context, o Options) (found []topology.Finding, err error) {
	if o.Only != "" && o.Only != "cluster" && o.Only != "node" {
		return nil, fmt.Errorf("--only %s: want cluster or node", o.Only)
	}
	node := Node{Root: o.Config.Agent.HostRoot, Agent: &o.Config.Agent, HookDir: o.HookDir, Version: o.Version, Client: http.DefaultClient}
	isNode := o.Only == "node" || o.Only == "" && node.IsNode()
	if isNode {
		found = node.Findings(ctx)
	}
	if o.Only == "node" {
		return found, nil
	}
	rc, err := reach(o.Kubeconfig)
	if err != nil && isNode && o.Only == "" && o.Kubeconfig == "" { // a node without Kubernetes
		var f findings
		f.ok("cluster", "not looked at, because no kubeconfig says where it is")
		return append(found, f...), nil
	} else if err != nil {
		return nil, err
	}
	c, site, err := gather(ctx, rc, o.Version)
	if err != nil {
		return nil, err
	}
	return append(found, c.Findings(site)...), nil
}

// Status says in a few lines how the cluster is. It returns all findings.
func Status(ctx context.Context, w io.Writer, kubeconfig, version string) ([]topology.Finding, error) {
	rc, err := reach(kubeconfig)
	if err != nil {
		return nil, err
	}
	c, site, err := gather(ctx, rc, version)
	if err != nil {
		return nil, err
	}
	return c.PrintStatus(w, site), nil
}

func gather(ctx context.Context, rc *rest.Config, version string) (*Cluster, *Site, error) {
	c, err := Gather(ctx, rc)
	if err != nil {
		return nil, nil, err
	}
	site, err := c.Site(version)
	if err != nil {
		return nil, nil, err
	}
	return c, site, c.gatherPublications(ctx, rc, site)
}

// reach returns how a person reaches the API server: by the file, as kubectl does, or as a
// Pod.
func reach(path string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	rc, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w; give --kubeconfig FILE", err)
	}
	rc.UserAgent = "quoin-doctor"
	return rc, nil
}
