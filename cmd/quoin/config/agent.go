package config

import (
	"cmp"
	"fmt"
	"net/url"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// Agent is the section agent.
type Agent struct {
	Machine `yaml:",inline"`
	// Store is the directory that gets the report. Empty: Kubernetes gets it.
	Store string `yaml:"store"`
	// Kubeconfig is the file that says how to reach the API server. Empty: as a Pod.
	Kubeconfig string `yaml:"kubeconfig"`
	// RunDir is the directory of the files that the hook reads.
	RunDir string `yaml:"runDir"`
	// MappingDir is DCGM Exporter's job mapping directory. none: the exporter names no jobs.
	MappingDir string `yaml:"mappingDir"`
	Listen     `yaml:",inline"`
	Jobs       `yaml:",inline"`
	DCGM       `yaml:",inline"`
	Log        `yaml:",inline"`
}

// Machine says which machine is read, and how.
type Machine struct {
	// Simulate is a simulated machine: the file of a site, or the name of a site that comes with
	// quoin. Empty: NVML reads this machine.
	Simulate string `yaml:"simulate"`
	// NVMLLibrary is the path of libnvidia-ml. Empty: the loader finds it.
	NVMLLibrary string `yaml:"nvmlLibrary"`
	// HostRoot is the directory in which the machine's proc and sys are.
	HostRoot string `yaml:"hostRoot"`
	// SysRoot is where the machine's sysfs is mounted, for the network adapters, the GPUs on PCI and the
	// control groups: a container's own sysfs lacks the adapters. Empty: sys of hostRoot.
	SysRoot string `yaml:"sysRoot"`
	// LLDPFile is a file that "lldpcli -f json show neighbors" has written on this node. Empty: LLDP
	// is not read.
	LLDPFile string `yaml:"lldpFile"`
}

// Sys is where the machine's sysfs is.
func (m *Machine) Sys() string { return cmp.Or(m.SysRoot, filepath.Join(m.HostRoot, "sys")) }

// ControlGroups is where the machine's control groups are mounted.
func (m *Machine) ControlGroups() string { return filepath.Join(m.Sys(), "fs/cgroup") }

// Jobs says how the node's jobs are followed and what the hook does.
type Jobs struct {
	// JobsGroup is the group, by number or name, that may read records, uses and summaries
	// of jobs in the run directory. Empty: root only.
	JobsGroup string `yaml:"jobsGroup"`
	// HookGate is what the Prolog of a job on several nodes does if IMEX is not ready in time: warn
	// (the job starts), fail, or hold (the job is queued again). off does not wait.
	HookGate string `yaml:"hookGate"`
	// HookGateWait is the longest that this Prolog waits for IMEX.
	HookGateWait time.Duration `yaml:"hookGateWait"`
	// HookScontrol is scontrol's absolute path on the nodes. hookGate hold needs it. Empty: none.
	HookScontrol string `yaml:"hookScontrol"`
	// HookSummaryDir is a directory for a summary of each job that has ended, beside the one in
	// runDir. Nodes may share it.
	HookSummaryDir string `yaml:"hookSummaryDir"`
}

// DCGM says who knows DCGM's ids of the GPUs. If nobody is asked, NVML's indices are
// taken.
type DCGM struct {
	// DCGMHostEngine is the address of this node's DCGM host engine, such as localhost:5555 or the
	// path of its socket. It needs libdcgm.so.4, which the image does not have.
	DCGMHostEngine string `yaml:"dcgmHostEngine"`
	// DCGMExporter is the URL of this node's DCGM Exporter, such as
	// http://localhost:9400/metrics. It is asked if the host engine does not answer.
	DCGMExporter string `yaml:"dcgmExporter"`
}

// Listen says where a program serves, and to whom.
type Listen struct {
	// Address is the address of /metrics. Empty: no metrics.
	Address string `yaml:"listen"`
	// Health is the address of /healthz and /readyz for Kubernetes. Empty: no probes.
	Health string `yaml:"healthListen"`
	// TLSCert is the file of a certificate for /metrics. It is read again when it changes. Empty: no
	// TLS.
	TLSCert string `yaml:"tlsCert"`
	// TLSKey is the file of the key of tlsCert.
	TLSKey string `yaml:"tlsKey"`
	// Authorize lets only those read /metrics whose Kubernetes token has the right to. It needs
	// tlsCert.
	Authorize bool `yaml:"metricsAuthorize"`
}

func (l *Listen) check(wrong *checks, store string) {
	wrong.want((l.TLSCert == "") == (l.TLSKey == ""), "tlsKey", l.TLSKey, "a file if tlsCert has one, and none if not")
	wrong.want(!l.Authorize || l.TLSCert != "", "metricsAuthorize", l.Authorize, "false without tlsCert, because tokens must not be sent as plain text")
	wrong.want(!l.Authorize || store == "", "metricsAuthorize", l.Authorize, "false beside store, because Kubernetes says who may read")
}

// Log says what is logged, and how.
type Log struct {
	// LogLevel is debug, info, warn or error.
	LogLevel string `yaml:"logLevel"`
	// LogFormat is text or json.
	LogFormat string `yaml:"logFormat"`
}

const defaultNamespace = "quoin-system"

var defaultLog = Log{LogLevel: "info", LogFormat: "text"}

func defaultAgent() Agent {
	return Agent{
		Machine: Machine{HostRoot: "/"}, RunDir: rundir.DefaultRunDir, MappingDir: dcgm.DefaultMappingDir, Listen: Listen{Address: ":9835"},
		Jobs: Jobs{HookGate: rundir.GateWarn, HookGateWait: rundir.DefaultGateWait}, Log: defaultLog,
	}
}

// GateOff is the value of hookGate for no gate.
const GateOff = "off"

// check says what is wrong with the values.
func (a *Agent) check(wrong *checks) {
	wrong.want(a.Simulate == "" || a.NVMLLibrary == "", "nvmlLibrary", a.NVMLLibrary, "none beside simulate")
	wrong.want(a.Store == "" || a.Kubeconfig == "", "kubeconfig", a.Kubeconfig, "none beside store")
	wrong.want(a.LLDPFile == "" || filepath.IsAbs(a.LLDPFile), "lldpFile", a.LLDPFile, "an absolute path")
	a.Jobs.check(wrong)
	a.DCGM.check(wrong)
	a.Listen.check(wrong, a.Store)
	a.Log.check(wrong)
}

func (j *Jobs) check(wrong *checks) {
	wrong.want(j.HookSummaryDir == "" || filepath.IsAbs(j.HookSummaryDir), "hookSummaryDir", j.HookSummaryDir, "an absolute path")
	wrong.want(j.HookScontrol == "" || filepath.IsAbs(j.HookScontrol), "hookScontrol", j.HookScontrol, "the absolute path of scontrol, because slurmd gives a hook no PATH")
	wrong.want(slices.Contains([]string{GateOff, rundir.GateWarn, rundir.GateFail, rundir.GateHold}, j.HookGate), "hookGate", j.HookGate, "off, warn, fail or hold")
	wrong.want(j.HookGate != rundir.GateHold || j.HookScontrol != "", "hookGate", j.HookGate, "hookScontrol too, because scontrol puts the job back")
	wrong.want(j.HookGateWait > 0 && j.HookGateWait <= 10*time.Minute, "hookGateWait", j.HookGateWait, "more than 0 and at most 10m")
}

// Group returns the number of JobsGroup, 0 for none.
func (j *Jobs) Group() (int, error) {
	if j.JobsGroup == "" {
		return 0, nil
	}
	text := j.JobsGroup
	if g, err := user.LookupGroup(text); err == nil {
		text = g.Gid
	}
	id, err := strconv.ParseInt(text, 10, 32)
	if err != nil || id <= 0 {
		return 0, fmt.Errorf("agent.jobsGroup: %q: want the number of a group, or a name that /etc/group has here", j.JobsGroup)
	}
	return int(id), nil
}

func (d *DCGM) check(wrong *checks) {
	wrong.want(!strings.ContainsAny(d.DCGMHostEngine, " \t\n") && !strings.Contains(d.DCGMHostEngine, "://"), "dcgmHostEngine", d.DCGMHostEngine, "an address such as localhost:5555, or the path of a socket")
	u, err := url.Parse(d.DCGMExporter)
	wrong.want(d.DCGMExporter == "" || err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "", "dcgmExporter", d.DCGMExporter, "a URL such as http://localhost:9400/metrics")
}

func (l *Log) check(wrong *checks) {
	wrong.want(slices.Contains([]string{"debug", "info", "warn", "error"}, l.LogLevel), "logLevel", l.LogLevel, "debug, info, warn or error")
	wrong.want(l.LogFormat == "text" || l.LogFormat == "json", "logFormat", l.LogFormat, "text or json")
}

// checks collects the wrong values of a section.
type checks struct {
	*reader
	section string
	found   []error
}

// want notes the value of a key if it is not ok.
func (c *checks) want(ok bool, key string, value any, wanted string) {
	if key = below(c.section, key); !ok {
		c.found = append(c.found, fmt.Errorf("%s%s: %q: want %s", c.before(key), key, fmt.Sprint(value), wanted))
	}
}
