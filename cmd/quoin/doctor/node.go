package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/imex/gate"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/topology"
)

// node is this machine as a GPU node.
type node struct {
	*Options
	agent *config.Agent
	// hookDir is where slurmd runs the hook from. packaged says that a package installs the hook there.
	hookDir  string
	packaged bool
}

func (o *Options) node() *node {
	dir := cmp.Or(o.HookDir, podHooks)
	if o.HookDir == "" && withoutKubernetes(&o.Config.Agent) {
		dir = packageHooks
	}
	return &node{Options: o, agent: &o.Config.Agent, hookDir: dir, packaged: dir == packageHooks}
}

// findings looks at the node, and says what is in order and what is not.
func (n *node) findings(ctx context.Context) []topology.Finding {
	var f findings
	n.hook(ctx, &f)
	conf := n.files(&f)
	n.mapping(&f, conf)
	n.gate(&f)
	n.exporter(ctx, &f)
	return f
}

func (n *node) path(name string) string { return filepath.Join(n.agent.HostRoot, name) }

func (n *node) hook(ctx context.Context, f *findings) {
	path := filepath.Join(n.hookDir, "quoin-hook")
	install, called := "quoin install-hook "+config.Word(n.hookDir), "Slurm's Prolog and Epilog run "+path+" (manifests/docs/jobs-and-metrics.md)"
	if n.packaged {
		install, called = "install the package quoin of this release again (manifests/docs/slurmd.md)", "slurm.conf has Prolog="+n.hookDir+"/prolog and Epilog="+n.hookDir+"/epilog (manifests/docs/slurmd.md)"
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	switch version := strings.TrimPrefix(strings.TrimSpace(string(out)), "quoin-hook "); {
	case err != nil:
		f.fatal("hook", install, "the hook does not run: %v", err)
	case !strings.HasPrefix(version, n.Version+" "):
		f.warn("hook", install, "the hook has release %s, and this is %s", version, n.Version)
	default:
		f.ok("hook", "%s runs", path)
	}
	holding := n.holding()
	summaries, _ := filepath.Glob(filepath.Join(rundir.Dir(n.agent.RunDir).SummaryDir(), "*"))
	if holding+len(summaries) == 0 {
		f.warn("calls", "run a job with GPUs here; then see that "+called, "no job has called the hook since the boot")
		return
	}
	f.ok("calls", "the hook was called: %d jobs hold GPUs, %d summaries", holding, len(summaries))
}

// The folders from which slurmd runs the hook: that of a machine without Kubernetes, where a package
// installs the hook, and that to which the agents' pods copy the hook.
const (
	packageHooks = "/usr/lib/quoin"
	podHooks     = "/opt/quoin/bin"
)

// withoutKubernetes reports whether agent, Slurm and exporter are services of the machine.
func withoutKubernetes(agent *config.Agent) bool { return agent.Store != "" }

// restart is the command that starts the agent again.
func (n *node) restart() string {
	if withoutKubernetes(n.agent) {
		return "systemctl restart quoin-agent"
	}
	return n.Kubectl + " -n quoin-node delete pods -l app.kubernetes.io/component=agent --field-selector spec.nodeName=" + config.Word(n.Node)
}

// files looks at what the agent writes, and returns the hook's configuration, or nil.
func (n *node) files(f *findings) *rundir.HookConfig {
	dir := rundir.Dir(n.agent.RunDir)
	conf, err := dir.ReadHookConfig()
	if conf == nil && err == nil {
		_, err = os.Stat(filepath.Join(n.agent.RunDir, rundir.HookConfigFile))
	}
	if err != nil {
		f.fatal("agent", n.restart(), "the agent has not written %s: %v", n.agent.RunDir, err)
		return nil
	}
	inv, err := dir.ReadInventory()
	boot, bootErr := rundir.BootID(n.agent.HostRoot)
	earlier := err == nil && bootErr == nil && inv.BootID != "" && inv.BootID != boot
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.fatal("inventory", "see in the agent's log why NVML shows no GPU, or ask NVML: quoin discover", "there is no inventory of GPUs, so no job is labelled")
	case err != nil:
		f.fatal("inventory", n.restart(), "%v", err)
	case earlier:
		f.fatal("inventory", n.restart(), "the inventory was written before this boot")
	case inv.Unordered:
		f.warn("inventory", "see which GPU cannot be read: quoin discover", "the order of the GPUs is not known: with AutoDetect in gres.conf, jobs are labelled by UUID only")
	default:
		f.ok("inventory", "%d GPUs and instances of node %s", len(inv.Entries), inv.Node)
	}
	if err == nil && !earlier {
		for _, fault := range inv.Faults {
			f.warn("hardware", "do what quoin discover says of it", "%s", fault.Text)
		}
	}
	return conf
}

func (n *node) mapping(f *findings, conf *rundir.HookConfig) {
	if conf == nil || n.agent.MappingDir == "none" {
		return
	}
	if conf.MappingDir != n.agent.MappingDir {
		f.warn("mapping", n.restart(), "the hook writes %s, and the configuration names %s", conf.MappingDir, n.agent.MappingDir)
	}
	info, err := os.Stat(conf.MappingDir)
	remedy := "make it, and mount it into slurmd's and the exporter's pods: mkdir -p "
	if withoutKubernetes(n.agent) {
		remedy = "make it: mkdir -p "
	}
	switch {
	case err != nil:
		f.fatal("mapping", remedy+config.Word(conf.MappingDir), "the exporter's directory is not there: %v", err)
	case !info.IsDir():
		f.fatal("mapping", "remove the file", "%s is not a directory", conf.MappingDir)
	default:
		f.ok("mapping", "%s is there", conf.MappingDir)
	}
}

func (n *node) gate(f *findings) {
	state, at, err := gate.Read(n.agent.RunDir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.ok("imex", "jobs wait for no IMEX domain here")
	case err != nil:
		f.fatal("imex", n.restart(), "%v", err)
	case time.Since(at) > gate.Stale:
		f.warn("imex", n.restart(), "the agent last confirmed the gate %s ago, so jobs do not wait", time.Since(at).Round(time.Second))
	case state.Clique == "":
		f.ok("imex", "jobs wait for no IMEX domain here")
	case state.Ready && state.PeersUnknown != "":
		f.warn("imex", "an agent in a pod may not be able to write the service's log, so mount its folder (Peers in imex/README.md); until then jobs do not wait for nodes that are down; see why: quoin discover", "ready in clique %s, but it is not known to which nodes this one is connected: %s", state.Clique, state.PeersUnknown)
	case state.Ready && state.Remedy != "":
		f.warn("imex", state.Remedy, "ready in clique %s: %s", state.Clique, state.Message)
	case state.Ready && len(state.Members) == 0: // the host's own service
		f.ok("imex", "ready in clique %s", state.Clique)
	case state.Ready:
		f.ok("imex", "ready in clique %s, %d members", state.Clique, len(state.Members))
	default:
		f.fatal("imex", "see what to do: quoin imex check"+n.Again, "%s: %s", state.Reason, state.Message)
	}
}

// exporter asks DCGM Exporter, if the agent knows its address.
func (n *node) exporter(ctx context.Context, f *findings) {
	url := n.agent.DCGMExporter
	if url == "" || n.agent.MappingDir == "none" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		f.fatal("exporter", "correct agent.dcgmExporter", "%v", err)
		return
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		remedy := "see that the exporter runs on this node, and that its Service has internalTrafficPolicy: Local"
		if withoutKubernetes(n.agent) {
			remedy = "see why it does not run: systemctl status dcgm-exporter"
		}
		f.fatal("exporter", remedy, "DCGM Exporter does not answer: %v", err)
		return
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 32<<20))
	switch {
	case err != nil || answer.StatusCode != http.StatusOK:
		f.fatal("exporter", "see the exporter's log", "DCGM Exporter answers with status %s", answer.Status)
	case strings.Contains(string(body), "hpc_job="):
		f.ok("exporter", "DCGM Exporter shows the jobs of GPUs")
	case n.holding() > 0:
		f.fatal("exporter", fmt.Sprintf("set DCGM_HPC_JOB_MAPPING_DIR=%s for the exporter (GPU Operator: dcgmExporter.hpcJobMapping)", n.agent.MappingDir), "jobs hold GPUs, and DCGM Exporter shows no label hpc_job")
	default:
		f.ok("exporter", "DCGM Exporter answers; no job holds a GPU now")
	}
}

// holding is how many jobs hold GPUs of the node.
func (n *node) holding() int {
	records, _ := rundir.Dir(n.agent.RunDir).ReadRecords()
	return len(records)
}

// IsNode reports whether this is a GPU node: an agent has run here, or there is a driver.
func (o *Options) IsNode() bool {
	n := o.node()
	for _, path := range []string{n.agent.RunDir, n.path("proc/driver/nvidia/version"), n.path("dev/nvidiactl")} {
		if _, err := os.Stat(path); err == nil {
			return true
		}
	}
	return false
}
