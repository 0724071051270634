package kuberig

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Write is one write that the API server logged. Resource is as RBAC names it, such
// as nodes or nodes/status.
type Write struct{ User, Verb, Resource, Namespace, Name string }

// Writes returns the writes of service accounts since the API server's log had
// offset bytes, and its length now.
func (c *Cluster) Writes(offset int64) ([]Write, int64, error) {
	f, err := os.Open(filepath.Join(c.Dir, "audit.log"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, 0, nil
	} else if err != nil {
		return nil, 0, fmt.Errorf("read audit log: %w", err)
	}
	defer f.Close()
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return nil, 0, fmt.Errorf("read audit log: %w", err)
	}
	var writes []Write
	for r := bufio.NewReader(f); ; {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // what follows the last line is being written
			return writes, offset, nil
		} else if err != nil {
			return nil, 0, fmt.Errorf("read audit log: %w", err)
		}
		offset += int64(len(line))
		w, err := parseWrite(line)
		if err != nil {
			return nil, 0, err
		}
		if strings.HasPrefix(w.User, "system:serviceaccount:") {
			writes = append(writes, w)
		}
	}
}

// parseWrite reads one line of the audit log.
func parseWrite(line []byte) (Write, error) {
	var e struct {
		Verb      string
		User      struct{ Username string }
		ObjectRef struct{ Resource, Subresource, Namespace, Name string }
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return Write{}, fmt.Errorf("read audit log: %w", err)
	}
	if e.ObjectRef.Subresource != "" {
		e.ObjectRef.Resource += "/" + e.ObjectRef.Subresource
	}
	return Write{e.User.Username, e.Verb, e.ObjectRef.Resource, e.ObjectRef.Namespace, e.ObjectRef.Name}, nil
}
