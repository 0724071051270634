package topology

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// maxObject is the most bytes of a report with metadata and line breaks.
const maxObject = 8 * MaxReport

// ParseObject reads a report that may be an object of Kubernetes: it may have metadata and
// a summary, which are not read. The limit of a report's bytes is that of its facts.
func ParseObject(source string, data []byte) (*Node, error) {
	if len(data) > maxObject {
		return nil, fmt.Errorf("%s: report: %w", source, errTooLarge)
	}
	// Most reports are read from files and have none: to decode them twice would take twice as long.
	if !bytes.Contains(data, []byte(`"metadata"`)) {
		return ParseReport(source, data)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil || members["metadata"] == nil {
		return ParseReport(source, data)
	}
	delete(members, "metadata")
	delete(members, "summary")
	facts, err := json.Marshal(members)
	if err != nil {
		return nil, fmt.Errorf("%s: report: %w", source, err)
	}
	return ParseReport(source, facts)
}
