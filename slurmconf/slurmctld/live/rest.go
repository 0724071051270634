package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/quoin-hpc/quoin/topology"
)

// parsers are slurmrestd's data parsers, the newest first. Slurm 26.05, 25.11 and 25.05 each brought one.
var parsers = []string{"v0.0.45", "v0.0.44", "v0.0.43"}

// maxToken and maxError bound what is read of a token file and of an answer that is an error.
const (
	maxToken = 16 << 10
	maxError = 4 << 10
)

// errNoParser is returned if slurmrestd has none of the data parsers.
var errNoParser = errors.New("slurmrestd has none of the data parsers " + strings.Join(parsers, ", ") + ": want Slurm 25.05 or newer")

// REST asks slurmrestd.
type REST struct {
	base, tokenFile string
	client          *http.Client
	// parser is the data parser that answered last, or "".
	parser string
}

// NewREST returns what asks the slurmrestd at the address: http://HOST:PORT, https://HOST:PORT
// or unix:/PATH. tokenFile holds the token of a
// Slurm user, as scontrol token prints it. The file is read for each question, so that the
// token may be renewed. It may be empty if slurmrestd asks for none.
func NewREST(address, tokenFile string) *REST {
	transport := &http.Transport{DisableCompression: true, IdleConnTimeout: time.Minute}
	base := strings.TrimSuffix(address, "/")
	if path, is := strings.CutPrefix(address, "unix:"); is {
		path, base = "/"+strings.TrimLeft(path, "/"), "http://localhost"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		}
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // the token goes nowhere else
	return &REST{base: base, tokenFile: tokenFile, client: &http.Client{Transport: transport, CheckRedirect: stay}}
}

// Ask asks for when slurmctld read its files, for all nodes, and for running jobs.
func (r *REST) Ask(ctx context.Context, q Question) (*State, error) {
	ctx, cancel := q.limit(ctx)
	defer cancel()
	began := time.Now()
	times, err := r.times(ctx)
	if err != nil {
		return nil, err
	}
	s := &State{}
	if age, known := times.age(); known {
		s.Read = began.Add(-age)
	}
	if q.Job != "" {
		err := r.get(ctx, "job/"+url.PathEscape(q.Job), func(body io.Reader) (err error) { s.Jobs, err = ReadJobs(body); return err })
		return s, err
	}
	// Jobs come first: if a node is free after all jobs were read, none of them took the node.
	if q.Jobs {
		jobs := "jobs/?flags=ALL"
		if q.Details {
			jobs = "jobs/"
		}
		err = errors.Join(
			r.get(ctx, "partitions/", func(body io.Reader) (err error) { s.Partitions, err = ReadPartitions(body); return err }),
			r.get(ctx, jobs, func(body io.Reader) (err error) { s.Jobs, err = ReadJobs(body); return err }))
	}
	if err == nil && q.Reservations {
		err = r.get(ctx, "reservations/", func(body io.Reader) (err error) { s.Reservations, err = ReadReservations(body); return err })
	}
	if err == nil && !q.Brief {
		err = r.get(ctx, "nodes/", func(body io.Reader) (err error) { s.Nodes, err = ReadNodes(body); return err })
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Reconfigure asks slurmctld to read its files again. The token must be that of root,
// SlurmUser or an operator.
func (r *REST) Reconfigure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if _, err := r.times(ctx); err != nil { // which finds the data parser
		return err
	}
	return r.get(ctx, "reconfigure/", func(io.Reader) error { return nil })
}

// times are slurmctld's own.
type times struct {
	// now and counting are of its statistics: the time of the answer, and since when they
	// are counted. boot is when it started or was reconfigured; data parsers before v0.0.45
	// have none.
	now, counting, boot int64
}

// age returns how long ago slurmctld read its files. The statistics count from then, but they
// begin again at midnight UTC.
func (t *times) age() (age time.Duration, known bool) {
	const day, minute = 24 * 60 * 60, 60
	read := t.boot
	if read == 0 && t.counting%day >= minute {
		read = t.counting
	}
	if read <= 0 || t.now < read {
		return 0, false
	}
	return time.Duration(t.now-read) * time.Second, true
}

// times asks for slurmctld's times by the data parser that answered last, or by the newest
// one that answers.
func (r *REST) times(ctx context.Context) (*times, error) {
	try := parsers
	if r.parser != "" {
		try = slices.Concat([]string{r.parser}, parsers)
	}
	for _, r.parser = range try {
		t, err := r.timesBy(ctx)
		if status := new(statusError); errors.As(err, &status) && status.code == http.StatusNotFound {
			continue
		}
		return t, err
	}
	r.parser = ""
	return nil, errNoParser
}

// timesBy asks by the present data parser.
func (r *REST) timesBy(ctx context.Context) (*times, error) {
	t := &times{}
	err := r.get(ctx, "diag/", func(body io.Reader) (err error) {
		t.now, t.counting, err = readDiag(body)
		return err
	})
	if err != nil || r.parser != parsers[0] {
		return t, err
	}
	err = r.get(ctx, "conf", func(body io.Reader) (err error) {
		t.boot, err = readConf(body)
		return err
	})
	return t, err
}

// readDiag reads the times of the answer to diag.
func readDiag(in io.Reader) (now, counting int64, err error) {
	var answer struct {
		Statistics struct {
			Time  number `json:"req_time"`
			Start number `json:"req_time_start"`
		} `json:"statistics"`
	}
	if err := json.UnmarshalDecode(newDecoder(in), &answer); err != nil {
		return 0, 0, fmt.Errorf("read diag: %w", err)
	}
	return answer.Statistics.Time.Number, answer.Statistics.Start.Number, nil
}

// readConf reads when slurmctld started or was reconfigured.
func readConf(in io.Reader) (int64, error) {
	var answer struct {
		Conf struct {
			Boot int64 `json:"BOOT_TIME"`
		} `json:"slurm_conf_meta"`
	}
	if err := json.UnmarshalDecode(newDecoder(in), &answer); err != nil {
		return 0, fmt.Errorf("read conf: %w", err)
	}
	return answer.Conf.Boot, nil
}

// statusError is an answer that is no success.
type statusError struct {
	code          int
	path, message string
}

// Error names the request, the status and what slurmrestd said.
func (e *statusError) Error() string {
	text := fmt.Sprintf("slurmrestd GET %s: %d %s", e.path, e.code, http.StatusText(e.code))
	if e.message != "" {
		text += ": " + e.message
	}
	return text
}

// get asks for a path below /slurm/PARSER/.
func (r *REST) get(ctx context.Context, path string, read func(body io.Reader) error) error {
	path = "/slurm/" + r.parser + "/" + path
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.base+path, nil)
	if err != nil {
		return fmt.Errorf("ask slurmrestd: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	if r.tokenFile != "" {
		token, err := readToken(r.tokenFile)
		if err != nil {
			return err
		}
		req.Header.Set("X-Slurm-User-Token", token)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return fmt.Errorf("ask slurmrestd: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return &statusError{resp.StatusCode, path, r.says(resp.Body)}
	}
	if err := read(resp.Body); err != nil {
		return fmt.Errorf("slurmrestd GET %s: %w", path, err)
	}
	return nil
}

// says returns what an answer says is wrong, and what to do about the token.
func (r *REST) says(body io.Reader) string {
	text, _ := io.ReadAll(io.LimitReader(body, maxError)) // what there is of it is enough
	message := errorText(text)
	if strings.Contains(message, "authentication") || strings.Contains(message, "Invalid user") {
		message += "; does " + r.tokenFile + " hold a token that is valid, of a user who may do this?"
	}
	return message
}

// errorText returns the first error of an answer.
func errorText(text []byte) string {
	var answer struct {
		Errors []struct {
			Description string `json:"description"`
			Error       string `json:"error"`
		} `json:"errors"`
	}
	if json.Unmarshal(text, &answer) != nil || len(answer.Errors) == 0 {
		return ""
	}
	e := answer.Errors[0]
	return topology.Cut(strings.Trim(e.Description+": "+e.Error, ": "), topology.MaxText)
}

// readToken reads a file with a token alone, or with SLURM_JWT=TOKEN.
func readToken(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxToken))
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	token := strings.TrimPrefix(strings.TrimSpace(string(text)), "SLURM_JWT=")
	if token == "" || strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return "", fmt.Errorf("read token: %s: want one line with a token, as scontrol token prints it", name)
	}
	return token, nil
}
