//go:build cgo

package node_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/test/rig/await"
	fake "github.com/quoin-hpc/quoin/test/rig/nvml"
	"github.com/quoin-hpc/quoin/test/rig/programs"
	"github.com/quoin-hpc/quoin/test/rig/put"
	"github.com/quoin-hpc/quoin/topology"
)

// imexMachine is a GB200 machine on which its own nvidia-imex.service runs.
type imexMachine struct {
	*fake.Machine
	t       *testing.T
	cgroups string
}

func newIMEXMachine(t *testing.T, devices string) *imexMachine {
	t.Helper()
	m := &imexMachine{Machine: fake.New(t, "gb200"), t: t}
	m.cgroups = m.path("sys/fs/cgroup")
	m.put("proc/devices", "Character devices:\n195 nvidia\n"+devices+"\nBlock devices:\n  7 loop\n", 0o600)
	m.put("etc/nvidia-imex/nodes_config.cfg", "10.0.0.1\n", 0o600)
	m.put("etc/nvidia-imex/config.cfg", "IMEX_NODE_CONFIG_FILE="+m.path("etc/nvidia-imex/nodes_config.cfg")+"\nIMEX_CMD_ENABLED=1\nIMEX_CMD_PORT=50005\n", 0o600)
	for _, channel := range []string{"channel0", "channel1"} {
		m.put("dev/nvidia-caps-imex-channels/"+channel, "", 0o600)
	}
	unit := filepath.Join(m.cgroups, "system.slice/nvidia-imex.service")
	if err := os.MkdirAll(unit, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(unit, "cgroup.events"), []byte("populated 1\nfrozen 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *imexMachine) path(name string) string { return filepath.Join(m.Root(), name) }

// put writes a file below the machine's root.
func (m *imexMachine) put(name, text string, mode os.FileMode) {
	m.t.Helper()
	put.File(m.t, m.path(name), text, mode)
}

// says has the daemon say a state, and a domain that is up with another time at each call.
func (m *imexMachine) says(state string) {
	m.t.Helper()
	m.answers(`echo "$*" >>` + m.path("calls") + `
case "$*" in
*-N*) echo '{"nodes": {}, "timestamp": "'$(date +%s.%N)'", "status": "UP"}' ;;
*) echo ` + state + ` ;;
esac
`)
}

// answers puts nvidia-imex-ctl onto the machine, with a script that answers.
func (m *imexMachine) answers(script string) {
	m.t.Helper()
	programs.PutIMEXCtl(m.t, m.path("usr/bin"), script)
}

// TestProbeIMEX streams what the machine says of IMEX: a line for a change, and none
// for a time that changes by itself. A program that hangs keeps nothing else from
// being said, and ends with the probe.
func TestProbeIMEX(t *testing.T) {
	t.Parallel()
	m := newIMEXMachine(t, "235 nvidia-caps-imex-channels\n")
	m.says("READY")
	cmd := command(t, programs.QuoinTest(t), 580, m.Machine, "probe", "--times", "read: 20ms")
	stdin, stdout := startPiped(t, cmd)
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<20)
	// until reads reports until one is as wanted, and returns how many there were.
	until := func(what string, is func(n *topology.Node) bool) (reports int) {
		t.Helper()
		for lines.Scan() {
			if len(lines.Bytes()) == 0 || isSample(lines.Bytes()) {
				continue
			}
			n, err := topology.ParseReport("probe", lines.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			if reports++; is(n) {
				return reports
			}
		}
		t.Fatalf("the probe ended (%v) before %s", lines.Err(), what)
		return 0
	}
	until("the first state", func(n *topology.Node) bool {
		return n.IMEX != nil && *n.IMEX.ChannelMajor == 235 && n.IMEX.Channels == 2 && n.IMEX.DaemonState == "READY" && n.IMEX.DomainState == "UP" && n.IMEX.HostService && n.Problems == nil
	})
	for range 5 {
		if !lines.Scan() || len(lines.Bytes()) > 0 && !isSample(lines.Bytes()) {
			t.Fatalf("%s: want an empty line, for nothing has changed", lines.Bytes())
		}
	}
	m.says("WAITING_FOR_PEERS")
	if got := until("the next state", func(n *topology.Node) bool { return n.IMEX.DaemonState == "WAITING_FOR_PEERS" }); got != 1 {
		t.Errorf("%d reports, want one", got)
	}

	m.answers("echo $$ >" + m.path("hangs") + ".new; mv " + m.path("hangs") + ".new " + m.path("hangs") + "\nexec sleep 1000\n")
	hangs := 0
	await.Until(t, "a question to the program that hangs", func() bool {
		if data, err := os.ReadFile(m.path("hangs")); err == nil {
			_, _ = fmt.Sscan(string(data), &hangs) // 0 is no process
		}
		return hangs != 0
	})
	ended := endOf(hangs)
	m.Change("gpu 0\nfabric completed 15 00 0 0")
	until("NVML's change", func(n *topology.Node) bool { return n.GPUs[0].Fabric.Status == "GPU_IS_LOST" })
	_ = stdin.Close()
	for lines.Scan() {
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: want exit status 0", err)
	}
	await.Until(t, "the end of nvidia-imex-ctl with the probe", ended)
}

// TestDiscoverIMEX shows what the machine says of IMEX, and why something is not
// known.
func TestDiscoverIMEX(t *testing.T) {
	t.Parallel()
	quoin := programs.QuoinTest(t)
	tests := []struct {
		name, devices, state string
		wants                []string
	}{
		{"ready", "235 nvidia-caps-imex-channels\n", "READY", []string{"\nIMEX      major 235, 2 channels, daemon READY, domain UP, nvidia-imex.service runs\n"}},
		{"unreadable", "235 nvidia-caps-imex-channels\n", "who knows", []string{"\nIMEX      major 235, 2 channels, daemon -, domain UP, nvidia-imex.service runs\n",
			"\nproblem: ImexUnreadable: IMEX: daemon's state: nvidia-imex-ctl -q of the daemon at 127.0.0.1:50005: the answer is not one word such as READY: who knows\n"}},
		{"a driver without IMEX", "", "READY", []string{"\nIMEX      none: the driver has no IMEX channels\n"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := newIMEXMachine(t, tt.devices)
			m.says(tt.state)
			out, err := command(t, quoin, 580, m.Machine, "discover").CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, want := range tt.wants {
				if !strings.Contains(string(out), want) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
			if got, want := strings.Count(string(out), "problem:"), len(tt.wants)-1; got != want {
				t.Errorf("%d problems, want %d:\n%s", got, want, out)
			}
			if _, err := os.Stat(m.path("calls")); (err == nil) != (tt.devices != "") {
				t.Errorf("nvidia-imex-ctl was run: %v, want it where there are channels", err == nil)
			}
		})
	}
}
