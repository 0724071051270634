package kuberig

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/quoin-hpc/quoin/test/rig/loopback"
)

// controllers are those of kube-controller-manager that tests need: ResourceClaims of pods,
// pods of DaemonSets and Jobs, and the end of what has no owner or no namespace any more.
// None of them minds that no kubelet says anything.
var controllers = []string{"resourceclaim-controller", "daemonset-controller", "job-controller", "garbage-collector-controller", "namespace-controller"}

// StartControllerManager starts kube-controller-manager with the controllers that
// make ResourceClaims from templates, the pods of DaemonSets and Jobs, and collect garbage.
func (c *Cluster) StartControllerManager(ctx context.Context) error {
	return c.startControl(ctx, "kube-controller-manager", "--controllers="+strings.Join(controllers, ","))
}

// StartScheduler starts kube-scheduler.
func (c *Cluster) StartScheduler(ctx context.Context) error {
	return c.startControl(ctx, "kube-scheduler")
}

// startControl starts a program of the control plane as the administrator and
// waits until it is ready.
func (c *Cluster) startControl(ctx context.Context, name string, args ...string) error {
	host := loopback.Host()
	args = append(args, "--kubeconfig="+c.Kubeconfig(), "--leader-elect=false", "--bind-address="+host, "--secure-port=10257",
		"--cert-dir="+filepath.Join(c.Dir, name+".certs"), "--kube-api-qps=500", "--kube-api-burst=1000")
	args = append(args, c.gates...)
	return c.startOther(ctx, name, exec.Command(filepath.Join(c.bin, name), args...), "https://"+host+":10257/healthz") //nolint:noctx // ended by Stop
}

// startOther starts a program beside the API server, and waits until it answers at an address.
func (c *Cluster) startOther(ctx context.Context, name string, cmd *exec.Cmd, url string) error {
	p, err := start(cmd, c.Dir)
	if err != nil {
		return err
	}
	c.others[name] = p
	return p.Ready(ctx, answers(url))
}

// answers asks whether there is anything at an address, whose certificate is of
// its own making.
func answers(url string) func(context.Context) error {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}} //nolint:gosec // on this machine
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", url, resp.Status)
		}
		return nil
	}
}
