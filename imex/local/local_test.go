package local

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/test/rig/put"
	"github.com/quoin-hpc/quoin/topology"
)

// gb200Devices is a GB200 tray's /proc/devices, shortened.
const gb200Devices = `Character devices:
  1 mem
  5 /dev/tty
 10 misc
195 nvidia
195 nvidiactl
234 nvidia-caps
235 nvidia-caps-imex-channels
506 nvidia-uvm
511 nvidia-nvlink

Block devices:
  7 loop
259 blkext
`

// localTree writes files below a new folder.
func localTree(t testing.TB, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		put.File(t, filepath.Join(root, name), text, 0o600)
	}
	return root
}

// shownLocal is the facts and the problems' messages in short.
func shownLocal(facts *topology.IMEX, problems []topology.Finding) string {
	text := "nothing"
	if facts != nil {
		major := "-"
		if facts.ChannelMajor != nil {
			major = fmt.Sprint(*facts.ChannelMajor)
		}
		text = fmt.Sprintf("%s %d %s/%s %t", major, facts.Channels, facts.DaemonState, facts.DomainState, facts.HostService)
	}
	for _, p := range problems {
		text += "\n" + p.String()
	}
	return text
}

func TestLocalFiles(t *testing.T) {
	t.Setenv("PATH", "/nonexistent")
	const (
		v2   = "sys/fs/cgroup/system.slice/"
		unit = "nvidia-imex.service/"
		pod  = "sys/fs/cgroup/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1.slice/cri-containerd-1.scope/"
	)
	host := map[string]string{v2 + "cgroup.events": "populated 1\nfrozen 0\n"}
	tests := []struct {
		name     string
		files    map[string]string
		devices  bool // with the channels' major
		outside  bool // of a clique
		channels int
		want     string
	}{
		{name: "no machine's root", want: "nothing"},
		{name: "no channels, outside", files: map[string]string{"proc/devices": "Character devices:\n195 nvidia\n"}, outside: true, want: "nothing"},
		{name: "no channels, in a clique", files: map[string]string{"proc/devices": "Character devices:\n195 nvidia\n\nBlock devices:\n235 nvidia-caps-imex-channels\n"}, want: "- 0 / false"},
		{name: "outside a clique nothing else is looked for", devices: true, outside: true, channels: 1, want: "235 1 / false"},
		{name: "no daemon", devices: true, files: host, want: "235 0 / false"},
		{name: "channels", devices: true, files: host, channels: 2048, want: "235 2048 / false"},
		{name: "service", devices: true, files: map[string]string{v2 + unit + "cgroup.events": "populated 1\nfrozen 0\n", v2 + unit + "cgroup.procs": "0\n"},
			want: "235 0 / true\nImexUnreadable: IMEX: daemon's state: stat ROOT/etc/nvidia-imex/config.cfg: no such file or directory"},
		{name: "service that has ended", devices: true, files: map[string]string{v2 + unit + "cgroup.events": "populated 0\nfrozen 0\n"}, want: "235 0 / false"},
		{name: "the driver's daemon is no service", devices: true, files: map[string]string{v2 + "kubelet.service/cgroup.procs": "1\n", pod + "cgroup.events": "populated 1\n", pod + "cgroup.procs": "4711\n"}, want: "235 0 / false"},
		{name: "a container's control groups", devices: true, files: map[string]string{"sys/fs/cgroup/cgroup.procs": "1\n"},
			want: "235 0 / false\nImexUnreadable: IMEX: the machine's nvidia-imex.service: ROOT/sys/fs/cgroup has no system.slice: the machine's control groups are not mounted there"},
		{name: "major is no number", files: map[string]string{"proc/devices": "Character devices:\n4096 nvidia-caps-imex-channels\n"},
			want: `nothing` + "\n" + `ImexUnreadable: IMEX: channel major: ROOT/proc/devices: line "4096 nvidia-caps-imex-channels": want a number of 0 to 4095 and a name`},
		{name: "devices is a folder", files: map[string]string{"proc/devices/x": ""}, want: "nothing\nImexUnreadable: IMEX: channel major: read ROOT/proc/devices: is a directory"},
		{name: "channels is a file", devices: true, files: map[string]string{v2 + "cgroup.events": "", "dev/nvidia-caps-imex-channels": ""},
			want: "235 0 / false\nImexUnreadable: IMEX: channels: open ROOT/dev/nvidia-caps-imex-channels: not a directory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := localTree(t, tt.files)
			if tt.devices {
				put.File(t, filepath.Join(root, "proc/devices"), gb200Devices, 0o600)
			}
			for i := range tt.channels {
				put.File(t, filepath.Join(root, channelDir, fmt.Sprintf("channel%d", i)), "", 0o600)
			}
			if tt.channels > 0 {
				for _, other := range []string{"channel", "channel0.tmp", "chan1"} {
					put.File(t, filepath.Join(root, channelDir, other), "", 0o600)
				}
			}
			got := shownLocal(New(Options{Root: root}).Read(!tt.outside))
			if diff := cmp.Diff(tt.want, strings.ReplaceAll(got, root, "ROOT")); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestLocalCgroups has the control groups mounted elsewhere, as in a container.
func TestLocalCgroups(t *testing.T) {
	root := localTree(t, map[string]string{"proc/devices": gb200Devices, "etc/nvidia-imex/config.cfg": "IMEX_CMD_ENABLED=0\n"})
	cgroups := localTree(t, map[string]string{"system.slice/nvidia-imex.service/cgroup.events": "populated 1\n"})
	facts, problems := New(Options{Root: root, Cgroups: cgroups}).Read(true)
	if !facts.HostService || len(problems) != 1 || !strings.Contains(problems[0].Message, "IMEX_CMD_ENABLED=1") {
		t.Errorf("%s", shownLocal(facts, problems))
	}
}

func FuzzParseMajor(f *testing.F) {
	f.Add(gb200Devices)
	f.Add("Character devices:\n-1 nvidia-caps-imex-channels\n")
	f.Add("Block devices:\n235 nvidia-caps-imex-channels")
	f.Fuzz(func(t *testing.T, text string) {
		major, err := parseMajor([]byte(text))
		if err != nil && major != nil || major != nil && (*major < 0 || *major > maxMajor) {
			t.Errorf("%v, %v", major, err)
		}
		if major != nil && !strings.Contains(text, channelDevice) {
			t.Errorf("%d of no line", *major)
		}
	})
}
