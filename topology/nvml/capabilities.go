package nvml

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// capabilitiesOf returns two device files of a MIG instance: first the file of its
// GPU instance, then its own. The driver has a file for each capability with the
// number. NVIDIA's container runtime may hide these files, but not the list of all
// capabilities.
func capabilitiesOf(root string, minor, gi, ci int) ([]string, error) {
	var files []string
	for _, of := range []struct{ path, key string }{
		{fmt.Sprintf("gpu%d/mig/gi%d/access", minor, gi), fmt.Sprintf("gpu%d/gi%d/access", minor, gi)},
		{fmt.Sprintf("gpu%d/mig/gi%d/ci%d/access", minor, gi, ci), fmt.Sprintf("gpu%d/gi%d/ci%d/access", minor, gi, ci)},
	} {
		number, err := capabilityOf(root, of.path, of.key)
		if err != nil {
			return nil, err
		}
		files = append(files, fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", number))
	}
	return files, nil
}

// capabilityOf returns the minor number of one capability.
func capabilityOf(root, path, key string) (int, error) {
	path = filepath.Join(root, "proc/driver/nvidia/capabilities", path)
	data, missing := os.ReadFile(path)
	if missing == nil {
		number, err := parseAccess(string(data))
		if err != nil {
			return 0, fmt.Errorf("%s: %w", path, err)
		}
		return number, nil
	}
	list := filepath.Join(root, "proc/driver/nvidia-caps/mig-minors")
	data, err := os.ReadFile(list)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("%w; in a container, mount the machine's /proc and set agent.hostRoot to the mount", missing)
	}
	if err != nil {
		return 0, err
	}
	number, err := parseMIGMinors(string(data), key)
	if err != nil {
		return 0, fmt.Errorf("%s: %w; %w", list, err, missing)
	}
	return number, nil
}

// parseAccess reads the minor number from a capability's file, which has lines
// such as "DeviceFileMinor: 21".
func parseAccess(text string) (int, error) {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "DeviceFileMinor:"); ok {
			return parseMinor(strings.TrimSpace(value))
		}
	}
	return 0, errors.New("no line DeviceFileMinor")
}

// parseMIGMinors finds a capability in the list of all of them, which has lines
// such as "gpu0/gi2/access 21".
func parseMIGMinors(text, key string) (int, error) {
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == key {
			return parseMinor(fields[1])
		}
	}
	return 0, fmt.Errorf("no line %s", key)
}

// maxMinor is the largest minor number of a device in Linux.
const maxMinor = 1<<20 - 1

func parseMinor(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || n > maxMinor {
		return 0, fmt.Errorf("minor number %q: want 0 to %d", s, maxMinor)
	}
	return int(n), nil
}
