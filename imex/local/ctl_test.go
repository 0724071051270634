package local

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/test/rig/programs"
	"github.com/quoin-hpc/quoin/test/rig/put"
	"github.com/quoin-hpc/quoin/topology"
)

// upAnswer is what nvidia-imex-ctl -N -j prints of two nodes.
const upAnswer = `{
  "nodes": {
    "0": {"status": "READY", "host": "10.0.0.1", "connections": {"0": {"host": "10.0.0.1", "status": "CONNECTED", "changed": true}, "1": {"host": "10.0.0.2", "status": "CONNECTED", "changed": true}}, "changed": true, "version": "580.95.05"},
    "1": {"status": "READY", "host": "10.0.0.2", "connections": {"0": {"host": "10.0.0.1", "status": "CONNECTED", "changed": true}, "1": {"host": "10.0.0.2", "status": "CONNECTED", "changed": true}}, "changed": true, "version": "580.95.05"}
  },
  "timestamp": "11/21/2026 20:37:39.905",
  "status": "UP"
}
`

// daemonConfigText is a configuration of a daemon that takes questions, with a list of
// nodes at a path.
const daemonConfigText = `# NVIDIA IMEX configuration file.
LOG_FILE_NAME=
IMEX_NODE_CONFIG_FILE=%s
IMEX_CMD_ENABLED=1
IMEX_CMD_BIND_INTERFACE_IP=10.0.0.1
IMEX_CMD_PORT=50005
IMEX_CMD_UNIX_DOMAIN_PATH=
`

// daemonMachine is a machine in a clique with a daemon and the stand-in of nvidia-imex-ctl, in
// which a shell script answers.
type daemonMachine struct {
	t     testing.TB
	root  string
	local *Reader
}

const podConfig = "var/lib/kubelet/plugins/compute-domain.nvidia.com/domains/6c1f/imexd.cfg"

// answerWithin is how long a test waits for a program that answers, however busy the
// machine is.
const answerWithin = 3 * time.Minute

// newDaemonMachine returns one of a configuration, below its root: of a daemon in a
// pod (podConfig), or of the machine's own service (hostConfig).
func newDaemonMachine(t testing.TB, config string) *daemonMachine {
	t.Helper()
	if _, err := programs.Build(t.Context(), programs.IMEX); err != nil { // which needs what is in PATH
		t.Fatal(err)
	}
	t.Setenv("PATH", "/usr/bin:/bin")
	m := &daemonMachine{t: t, root: localTree(t, map[string]string{"proc/devices": gb200Devices, "sys/fs/cgroup/system.slice/cgroup.events": "populated 1\n"})}
	nodes := "/imexd/nodes.cfg" // which is in the daemon's pod
	if config == hostConfig {
		nodes = filepath.Join(m.root, "etc/nvidia-imex/nodes_config.cfg")
		put.File(t, nodes, "10.0.0.1\n10.0.0.2\n", 0o600)
		put.File(t, filepath.Join(m.root, "sys/fs/cgroup/system.slice/nvidia-imex.service/cgroup.events"), "populated 1\n", 0o600)
	}
	put.File(t, filepath.Join(m.root, config), fmt.Sprintf(daemonConfigText, nodes), 0o600)
	m.local = New(Options{Root: m.root})
	m.local.ctl.timeout, m.local.ctl.patience = answerWithin, answerWithin+dieWithin
	return m
}

// script makes the program that is asked. It notes its calls, one a line, and the configuration by which it
// finds the daemon.
func (m *daemonMachine) script(lines string) {
	m.t.Helper()
	programs.PutIMEXCtl(m.t, filepath.Join(m.root, "usr/bin"), "echo \"$*\" >>"+filepath.Join(m.root, "calls")+"\n[ \"$3\" != -q ] || cat \"$2\" >"+filepath.Join(m.root, "private")+"\n"+lines+"\n")
}

// says has the program answer -q and -N.
func (m *daemonMachine) says(daemon, domain string) {
	m.t.Helper()
	put.File(m.t, filepath.Join(m.root, "domain"), domain, 0o600)
	m.script(`case "$*" in *-N*) cat ` + filepath.Join(m.root, "domain") + `;; *) echo "` + daemon + `";; esac`)
}

func (m *daemonMachine) calls() string {
	data, err := os.ReadFile(filepath.Join(m.root, "calls"))
	if err != nil && !os.IsNotExist(err) {
		m.t.Fatal(err)
	}
	return string(data)
}

// private is the configuration that the program got with its last question.
func (m *daemonMachine) private() string {
	data, err := os.ReadFile(filepath.Join(m.root, "private"))
	if err != nil {
		m.t.Fatal(err)
	}
	return string(data)
}

// read is what a reading shows, without its first words about files.
func (m *daemonMachine) read() string { return m.shown(m.local.Read(true)) }

func (m *daemonMachine) shown(facts *topology.IMEX, problems []topology.Finding) string {
	return strings.ReplaceAll(shownLocal(facts, problems), m.root, "ROOT")
}

func TestLocalDaemonInPod(t *testing.T) {
	m := newDaemonMachine(t, podConfig)
	for _, state := range []string{"READY", "WAITING_FOR_PEERS", "READY"} {
		m.says(state, upAnswer)
		if got, want := m.read(), "235 0 "+state+"/ false"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got, want := m.calls(), strings.Repeat("-c /proc/self/fd/3 -q\n", 3); got != want {
		t.Errorf("calls\n%swant\n%s", got, want)
	}
	if got, want := m.private(), "IMEX_CMD_ENABLED=1\nIMEX_CMD_BIND_INTERFACE_IP=10.0.0.1\nIMEX_CMD_PORT=50005\n"; got != want {
		t.Errorf("configuration\n%swant\n%s", got, want)
	}
	// Outside a clique nobody is asked.
	if facts, problems := m.local.Read(false); facts.DaemonState != "" || problems != nil {
		t.Errorf("outside a clique: %s", shownLocal(facts, problems))
	}
	put.File(t, filepath.Join(m.root, "proc/devices"), "Character devices:\n195 nvidia\n", 0o600)
	if got, want := m.read(), "- 0 / false"; got != want {
		t.Errorf("without channels: got %q, want %q", got, want)
	}
	if got := strings.Count(m.calls(), "\n"); got != 3 {
		t.Errorf("%d calls, want none where there is nothing to ask", got-3)
	}
}

// TestLocalForgets has a machine leave its clique and come back: what its daemon said
// before is not said again.
func TestLocalForgets(t *testing.T) {
	m := newDaemonMachine(t, podConfig)
	m.says("READY", "")
	if got, want := m.read(), "235 0 READY/ false"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	m.local.Read(false)
	m.script("exit 1")
	if got := m.read(); !strings.HasSuffix(got, "-q of the daemon at 10.0.0.1:50005: exit status 1") {
		t.Errorf("got %q", got)
	}
}

func TestLocalHostDaemon(t *testing.T) {
	m := newDaemonMachine(t, hostConfig)
	put.File(t, filepath.Join(m.root, addressesFile), routesText, 0o600)
	for _, state := range []string{"UP", "DEGRADED", "DOWN"} {
		m.says("READY", strings.ReplaceAll(upAnswer, `"UP"`, `"`+state+`"`))
		if got, want := m.read(), "235 0 READY/"+state+" true"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got, want := m.calls(), strings.Repeat("-c /proc/self/fd/3 -q\n-c "+filepath.Join(m.root, hostConfig)+" -N -j\n", 3); got != want {
		t.Errorf("calls\n%swant\n%s", got, want)
	}
	// A file that a daemon in a pod has left changes nothing: it cannot run beside the service.
	put.File(t, filepath.Join(m.root, podConfig), fmt.Sprintf(strings.ReplaceAll(daemonConfigText, "10.0.0.1", "10.9.9.9"), "/imexd/nodes.cfg"), 0o600)
	if got, want := m.read(), "235 0 READY/DOWN true"; got != want || strings.Contains(m.private(), "10.9.9.9") {
		t.Errorf("got %q, want %q, configuration\n%s", got, want, m.private())
	}
	// A container may lack the list. Then nobody knows the peers, and a problem says so.
	if err := os.Remove(filepath.Join(m.root, "etc/nvidia-imex", NodesFile)); err != nil {
		t.Fatal(err)
	}
	if got, want := m.read(), "/"+NodesFile+", which lists the nodes of the domain, is not there; in a container mount its folder by the same path"; !strings.HasPrefix(got, "235 0 READY/ true\nImexUnreadable: IMEX: domain's state: ") || !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestLocalFault has a daemon of the driver that does not say its state, for reasons that show
// that it is not ready, and for others.
func TestLocalFault(t *testing.T) {
	m := newDaemonMachine(t, podConfig)
	config := filepath.Join(m.root, podConfig)
	written := func(ago time.Duration) {
		at := time.Now().Add(-ago)
		if err := os.Chtimes(config, at, at); err != nil {
			t.Fatal(err)
		}
	}
	booted := func(ago time.Duration) {
		put.File(t, filepath.Join(m.root, statFile), fmt.Sprintf("cpu  1 2 3\nbtime %d\nprocesses 7\n", time.Now().Add(-ago).Unix()), 0o600)
	}
	is := func(what, state, fault string) {
		t.Helper()
		facts, _ := m.local.Read(true)
		if facts.DaemonState != state || facts.DaemonFault != fault || facts.DaemonAddress != "10.0.0.1" {
			t.Errorf("%s: %+v, want %q and %q", what, facts, state, fault)
		}
	}
	const old = "it has not started since the machine booted"
	m.script("exit 1")
	written(time.Hour)
	is("nobody knows when the machine booted", "", "")
	booted(30 * time.Minute)
	is("a configuration of before the boot", "", old)
	m.says("READY", "")
	is("a clock that was wrong, and a daemon that is ready", "READY", "")
	m.script("exit 1")
	booted(2 * time.Hour)
	is("one question without an answer", "READY", "")
	is("two", "", "")
	m.says("READY", "")
	is("it answers again", "READY", "")

	put.File(t, config, fmt.Sprintf(daemonConfigText, "/imexd/other.cfg"), 0o600)
	m.script("exit 1")
	m.local.ctl.forget() // an agent that starts
	written(0)
	is("a young daemon, once", "", "")
	is("a young daemon, twice", "", "")
	booted(time.Hour)
	if err := os.Remove(filepath.Join(m.root, "usr/bin", ctlProgram)); err != nil {
		t.Fatal(err)
	}
	m.local.ctl.forget()
	is("no program to ask by", "", "")
	written(3 * time.Hour)
	is("no program, and a configuration of before the boot", "", old)
}

func TestBootTime(t *testing.T) {
	for text, want := range map[string]int64{"btime 1700000000\n": 1700000000, "cpu 1\n btime 5\n": 5, "btime x\n": 0, "xbtime 5\n": 0, "": 0} {
		path := filepath.Join(t.TempDir(), "stat")
		put.File(t, path, text, 0o600)
		if got := bootTime(path); got.IsZero() != (want == 0) || want != 0 && got.Unix() != want {
			t.Errorf("%q: %s, want %d", text, got, want)
		}
	}
	if got := bootTime(filepath.Join(t.TempDir(), "gone")); !got.IsZero() {
		t.Errorf("no file: %s", got)
	}
}

// TestLocalNewestDomain has the folders of two domains: the daemon that was started
// last runs.
func TestLocalNewestDomain(t *testing.T) {
	m := newDaemonMachine(t, podConfig)
	m.says("READY", "")
	other := filepath.Join(m.root, strings.ReplaceAll(podConfig, "6c1f", "77aa"))
	put.File(t, other, fmt.Sprintf(strings.ReplaceAll(daemonConfigText, "10.0.0.1", "10.0.0.9"), "/imexd/nodes.cfg"), 0o600)
	for _, age := range []time.Duration{-time.Minute, time.Minute} {
		when := time.Now().Add(age)
		if err := os.Chtimes(other, when, when); err != nil {
			t.Fatal(err)
		}
		if got, want := m.read(), "235 0 READY/ false"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		want := "10.0.0.1"
		if age > 0 {
			want = "10.0.0.9"
		}
		if got := m.private(); !strings.Contains(got, "IMEX_CMD_BIND_INTERFACE_IP="+want+"\n") {
			t.Errorf("want the daemon at %s, configuration\n%s", want, got)
		}
	}
}

// TestLocalOtherDaemon discards what is said of a daemon that is no longer the one.
func TestLocalOtherDaemon(t *testing.T) {
	m := newDaemonMachine(t, podConfig)
	m.says("READY", "")
	m.local.ctl.underWay = make(chan answer, 1)
	m.local.ctl.underWay <- answer{to: question{service: service{at: "10.0.0.3:50005"}}, daemon: said{state: "SHUTTING_DOWN"}}
	for _, want := range []string{"235 0 / false", "235 0 READY/ false"} {
		if got := m.read(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	put.File(t, filepath.Join(m.root, podConfig), fmt.Sprintf(strings.ReplaceAll(daemonConfigText, "10.0.0.1", "10.0.0.2"), "/imexd/nodes.cfg"), 0o600)
	m.script("exit 1")
	if got := m.read(); !strings.HasSuffix(got, "-q of the daemon at 10.0.0.2:50005: exit status 1") {
		t.Errorf("got %q", got)
	}
}

func TestServiceOf(t *testing.T) {
	tests := []struct{ name, text, want, err string }{
		{"address", "IMEX_CMD_ENABLED=1\nIMEX_CMD_BIND_INTERFACE_IP=10.0.0.1\nIMEX_CMD_PORT=50005\n", "10.0.0.1:50005", ""},
		{"all interfaces", "IMEX_CMD_ENABLED=1\nIMEX_CMD_PORT=50005 # the default\n", "127.0.0.1:50005", ""},
		{"IPv6", "IMEX_CMD_ENABLED=1\nIMEX_CMD_BIND_INTERFACE_IP=fd00::1\nIMEX_CMD_PORT=1\n", "[fd00::1]:1", ""},
		{"socket", "IMEX_CMD_ENABLED=1\nIMEX_CMD_PORT=\nIMEX_CMD_UNIX_DOMAIN_PATH=/run/imex.sock\n", "ROOT/run/imex.sock", ""},
		{"address and socket", "IMEX_CMD_ENABLED=1\nIMEX_CMD_PORT=50005\nIMEX_CMD_UNIX_DOMAIN_PATH=/run/imex.sock\n", "ROOT/run/imex.sock", ""},
		{"a port, and no such socket", "IMEX_CMD_ENABLED=1\nIMEX_CMD_PORT=50005\nIMEX_CMD_UNIX_DOMAIN_PATH=/run/gone.sock\n", "127.0.0.1:50005", ""},
		{"no such socket", "IMEX_CMD_ENABLED=1\nIMEX_CMD_UNIX_DOMAIN_PATH=/run/gone.sock\n", "", "mount its folder"},
		{"a file that is no socket", "IMEX_CMD_ENABLED=1\nIMEX_CMD_UNIX_DOMAIN_PATH=/run\n", "", "mount its folder"},
		{"the last counts", "IMEX_CMD_ENABLED=0\nIMEX_CMD_PORT=1\nIMEX_CMD_PORT=2\nIMEX_CMD_ENABLED=1\n", "127.0.0.1:2", ""},
		{"off", "IMEX_CMD_ENABLED=0\nIMEX_CMD_PORT=50005\n", "", "takes no questions"},
		{"empty", "", "", "takes no questions"},
		{"comment", "# IMEX_CMD_ENABLED=1\n", "", "takes no questions"},
		{"no port", "IMEX_CMD_ENABLED=1\n", "", `IMEX_CMD_PORT ""`},
		{"port 0", "IMEX_CMD_ENABLED=1\nIMEX_CMD_PORT=0\n", "", `IMEX_CMD_PORT "0"`},
		{"option for a port", "IMEX_CMD_ENABLED=1\nIMEX_CMD_PORT=5 -s\n", "", `IMEX_CMD_PORT "5 -s"`},
		{"option for an address", "IMEX_CMD_ENABLED=1\nIMEX_CMD_BIND_INTERFACE_IP=-s\nIMEX_CMD_PORT=5\n", "", `IMEX_CMD_BIND_INTERFACE_IP "-s"`},
		{"option for a socket", "IMEX_CMD_ENABLED=1\nIMEX_CMD_UNIX_DOMAIN_PATH=-s\n", "", `IMEX_CMD_PORT ""`},
	}
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "run"), 0o700); err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", filepath.Join(root, "run/imex.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close() //nolint:errcheck // of a test
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := parseConfig([]byte(tt.text))
			service, err := c.service(root)
			got := strings.ReplaceAll(service.at, root, "ROOT")
			if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add(fmt.Sprintf(daemonConfigText, "/imexd/nodes.cfg"))
	f.Add("IMEX_CMD_ENABLED=1\nIMEX_CMD_UNIX_DOMAIN_PATH=/run/x\n")
	f.Fuzz(func(t *testing.T, text string) {
		c := parseConfig([]byte(text))
		service, err := c.service(t.TempDir())
		again := parseConfig([]byte(service.config))
		switch {
		case c.nodes == "":
			t.Error("no file of nodes")
		case err != nil:
			if service.at+service.config != "" {
				t.Errorf("%q and %v", service, err)
			}
		case !again.commands || strings.Count(service.config, "\n") > 3:
			t.Errorf("%q", service)
		case again.socket != service.at && net.JoinHostPort(again.address, again.port) != service.at:
			t.Errorf("%q: the configuration says another place", service)
		}
	})
}

func FuzzParseStates(f *testing.F) {
	f.Add("READY\n")
	f.Add("WAITING_FOR_PEERS")
	f.Add(upAnswer)
	f.Add(`{"status":"up"}`)
	f.Fuzz(func(t *testing.T, text string) {
		for name, parse := range map[string]func([]byte) (said, error){"-q": parseDaemonState, "-N": question{root: t.TempDir()}.parseDomain} {
			said, err := parse([]byte(text))
			state := said.state
			if (err == nil) != isState(state) {
				t.Errorf("%s: %q, %v", name, state, err)
			}
			if err == nil && (state != strings.ToUpper(state) || strings.ContainsAny(state, "\n \"{")) {
				t.Errorf("%s: %q", name, state)
			}
			checkPeers(t, said.peers)
		}
	})
}
