package nvml

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// write makes files below a folder.
func write(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCapabilities(t *testing.T) {
	const gi, ci, list = "proc/driver/nvidia/capabilities/gpu1/mig/gi5/access", "proc/driver/nvidia/capabilities/gpu1/mig/gi5/ci2/access", "proc/driver/nvidia-caps/mig-minors"
	const good = "DeviceFileMinor: 183\nDeviceFileMode: 292\nDeviceFileModify: 1\n"
	want := []string{"/dev/nvidia-caps/nvidia-cap183", "/dev/nvidia-caps/nvidia-cap186"}
	tests := []struct {
		name  string
		files map[string]string
		want  []string
		err   string // after the root's name
	}{
		{"a file each", map[string]string{gi: good, ci: "DeviceFileMinor: 186"}, want, ""},
		{"the list alone", map[string]string{list: "config 1\nmonitor 2\ngpu1/gi5/access 183\ngpu1/gi5/ci0/access 184\ngpu1/gi5/ci2/access 186\ngpu11/gi5/access 9\n"}, want, ""},
		{"a file goes before the list", map[string]string{gi: good, list: "gpu1/gi5/access 1\ngpu1/gi5/ci2/access 186\n"}, want, ""},
		{"neither", nil, nil, gi + ": no such file or directory; in a container, mount the machine's /proc and set agent.hostRoot to the mount"},
		{"one without the other", map[string]string{gi: good}, nil, ci + ": no such file"},
		{"not in the list", map[string]string{list: "gpu1/gi5/access 183\n"}, nil, list + ": no line gpu1/gi5/ci2/access; "},
		{"empty file", map[string]string{gi: "", ci: good}, nil, gi + ": no line DeviceFileMinor"},
		{"another file's text", map[string]string{gi: good, ci: "DeviceFileMode: 292\n"}, nil, ci + ": no line DeviceFileMinor"},
		{"no number", map[string]string{gi: "DeviceFileMinor: x\n"}, nil, gi + `: minor number "x": want 0 to 1048575`},
		{"below zero", map[string]string{gi: "DeviceFileMinor: -1\n"}, nil, gi + `: minor number "-1"`},
		{"too big", map[string]string{gi: "DeviceFileMinor: 1048576\n"}, nil, gi + `: minor number "1048576"`},
		{"garbled list", map[string]string{list: "gpu1/gi5/access\n gpu1/gi5/access 183 1\n"}, nil, list + ": no line gpu1/gi5/access"},
		{"no number in the list", map[string]string{list: "gpu1/gi5/access one\n"}, nil, list + `: minor number "one"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			write(t, root, tt.files)
			got, err := capabilitiesOf(root, 1, 5, 2)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), filepath.Join(root, tt.err)) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
		})
	}
}

func FuzzParseAccess(f *testing.F) {
	f.Add("DeviceFileMinor: 21\nDeviceFileMode: 292\n")
	f.Add("gpu0/gi2/access 21")
	f.Fuzz(func(t *testing.T, text string) {
		if n, err := parseAccess(text); err == nil && (n < 0 || n > maxMinor || !strings.Contains(text, "DeviceFileMinor:")) {
			t.Errorf("%q: %d", text, n)
		}
		if n, err := parseMIGMinors(text, "gpu0/gi2/access"); err == nil && (n < 0 || n > maxMinor || !strings.Contains(text, "gpu0/gi2/access")) {
			t.Errorf("%q: %d", text, n)
		}
	})
}
