package kuberig

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Request is one request that the API server logged. Resource is as RBAC names it,
// such as nodes or nodes/status; Verb is get, list, watch or that of a write. A watch
// that begins with all that there is counts as a list.
type Request struct{ User, Verb, Resource, Namespace, Name string }

// Writes returns the writes of service accounts since the API server's log had
// offset bytes, and its length now.
func (c *Cluster) Writes(offset int64) ([]Request, int64, error) {
	requests, end, err := c.Requests(offset)
	return slices.DeleteFunc(requests, func(r Request) bool { return slices.Contains(reads, r.Verb) }), end, err
}

var reads = []string{"get", "list", "watch"}

// Requests returns all requests of service accounts as Writes does. A watch is one
// request, when it begins.
func (c *Cluster) Requests(offset int64) ([]Request, int64, error) {
	f, err := os.Open(filepath.Join(c.home, "audit.log"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, 0, nil
	} else if err != nil {
		return nil, 0, fmt.Errorf("read audit log: %w", err)
	}
	defer f.Close()
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return nil, 0, fmt.Errorf("read audit log: %w", err)
	}
	var requests []Request
	for lines := bufio.NewReader(f); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // what follows the last line is being written
			return requests, offset, nil
		} else if err != nil {
			return nil, 0, fmt.Errorf("read audit log: %w", err)
		}
		offset += int64(len(line))
		r, logged, err := parseRequest(line)
		if err != nil {
			return nil, 0, err
		}
		if logged && strings.HasPrefix(r.User, "system:serviceaccount:") {
			requests = append(requests, r)
		}
	}
}

// parseRequest reads one line of the audit log. The end of a watch is none.
func parseRequest(line []byte) (r Request, logged bool, err error) {
	var e struct {
		Stage, Verb, RequestURI string
		User                    struct{ Username string }
		ObjectRef               struct{ Resource, Subresource, Namespace, Name string }
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return Request{}, false, fmt.Errorf("read audit log: %w", err)
	}
	if e.ObjectRef.Subresource != "" {
		e.ObjectRef.Resource += "/" + e.ObjectRef.Subresource
	}
	logged = e.Verb != "watch" || e.Stage == "ResponseStarted"
	if e.Verb == "watch" && strings.Contains(e.RequestURI, "sendInitialEvents=true") {
		e.Verb = "list"
	}
	return Request{e.User.Username, e.Verb, e.ObjectRef.Resource, e.ObjectRef.Namespace, e.ObjectRef.Name}, logged, nil
}
