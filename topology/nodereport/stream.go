package nodereport

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// stream reads the events of a watch. client-go's own reader parses each object four times,
// which is most of the time in which a publisher starts with 10,000 reports.
type stream struct {
	body io.ReadCloser
	dec  *jsontext.Decoder
}

// newStream returns a watch of the events in body.
func newStream(body io.ReadCloser) watch.Interface {
	s := &stream{body, jsontext.NewDecoder(body, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
	return watch.NewStreamWatcher(s, apierrors.NewClientErrorReporter(http.StatusInternalServerError, "watch", "ReportUnreadable"))
}

// Decode implements watch.Decoder.
func (s *stream) Decode() (watch.EventType, runtime.Object, error) {
	kind, object, err := s.event()
	if errors.Is(err, io.ErrUnexpectedEOF) { // a connection that breaks is no error of the API server
		err = io.ErrUnexpectedEOF
	}
	return kind, object, err
}

// event reads one event.
func (s *stream) event() (kind watch.EventType, object runtime.Object, err error) {
	if _, err := s.dec.ReadToken(); err != nil {
		return "", nil, err
	}
	for s.dec.PeekKind() == '"' {
		name, err := s.dec.ReadToken()
		if err != nil {
			return "", nil, err
		}
		key := name.String()
		value, err := s.dec.ReadValue()
		if err != nil {
			return "", nil, err
		}
		switch key {
		case "type":
			err = json.Unmarshal(value, &kind)
		case "object": // the type comes first
			object, err = decodeEvent(kind, value)
		}
		if err != nil {
			return "", nil, err
		}
	}
	if _, err := s.dec.ReadToken(); err != nil {
		return "", nil, err
	}
	if object == nil {
		return "", nil, fmt.Errorf("read an event of NodeReports: type %q without an object", kind)
	}
	return kind, object, nil
}

// decodeEvent reads the object of an event. Why a watch has ended is a Status.
func decodeEvent(kind watch.EventType, text []byte) (runtime.Object, error) {
	switch kind {
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark:
		o := &Object{}
		return o, o.UnmarshalJSON(text)
	case watch.Error:
		status := &metav1.Status{}
		return status, json.Unmarshal(text, status)
	}
	return nil, fmt.Errorf("read an event of NodeReports: unknown type %q", kind)
}

// Close implements watch.Decoder.
func (s *stream) Close() { _ = s.body.Close() } // nothing more is read
