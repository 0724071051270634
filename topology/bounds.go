package topology

import (
	"cmp"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// The bounds of a report. A report comes from a machine that may be broken or stolen, and
// must cost no other node anything. The tag max on a field of Node bounds its bytes or its
// items, and the tag each the bytes of each item. Files that a node's processes share have the
// same tags.
const (
	// MaxReport is the most bytes that a report has.
	MaxReport = 64 << 10
	// MaxText is the most bytes of a string without a bound of its own.
	MaxText = 256
	// MaxMessage is the most bytes of what is logged or published of one problem.
	MaxMessage = 1 << 10
)

// isCapability reports whether a path is one of the device files of MIG instances. It is no regular
// expression, because those would make each call of quoin-hook slower, which never asks.
func isCapability(path string) bool {
	number, is := strings.CutPrefix(path, "/dev/nvidia-caps/nvidia-cap")
	return is && number != "" && strings.Trim(number, "0123456789") == ""
}

// Cut returns at most limit bytes of text. A text that is cut ends in dots.
func Cut(text string, limit int) string {
	const dots = "..."
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:max(limit-len(dots), 0)], "") + dots
}

// checkBounds returns an error that names the first value out of bounds.
func (n *Node) checkBounds() error {
	for i := range n.GPUs {
		for k := range n.GPUs[i].MIG {
			for _, file := range n.GPUs[i].MIG[k].Capabilities {
				if !isCapability(file) {
					return fmt.Errorf("gpus[%d].mig[%d].capabilities: %q: want such as /dev/nvidia-caps/nvidia-cap21", i, k, Cut(file, MaxText))
				}
			}
		}
	}
	return CheckBounds(n)
}

// CheckBounds returns an error that names the first value out of bounds. v points to a struct.
func CheckBounds(v any) error {
	path, err := checkSizes(reflect.ValueOf(v).Elem(), "", "", false)
	if err != nil {
		return fmt.Errorf("%s: %w", strings.TrimPrefix(path, "."), err)
	}
	return nil
}

// LeaveOut empties each text that is too long, because a part of one would be wrong. It empties a
// list with such a text too. A list with too many items stays. v points to a struct.
func LeaveOut(v any) { _, _ = checkSizes(reflect.ValueOf(v).Elem(), "", "", true) }

// checkSizes checks a value and all in it. limit and each are the tags of its field. path leads from
// v to what is out of bounds.
func checkSizes(v reflect.Value, limit, each string, leaveOut bool) (path string, err error) {
	switch v.Kind() { //nolint:exhaustive // numbers need no bound
	case reflect.Pointer:
		if !v.IsNil() {
			return checkSizes(v.Elem(), "", "", leaveOut)
		}
	case reflect.String:
		return "", checkSize(v.Len(), limit, "bytes")
	case reflect.Slice:
		if err := checkSize(v.Len(), limit, "items"); err != nil {
			return "", err
		}
		for i := range v.Len() {
			if path, err := checkSizes(v.Index(i), each, "", leaveOut); err != nil {
				return fmt.Sprintf("[%d]%s", i, path), err
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Field(i)
			// No tag of a string is less than MaxText; to read a tag takes longer than all else.
			if f.Kind() == reflect.String && f.Len() <= MaxText || !f.CanInterface() {
				continue
			}
			field := v.Type().Field(i)
			path, err := checkSizes(f, field.Tag.Get("max"), field.Tag.Get("each"), leaveOut)
			isText := f.Kind() == reflect.String || f.Kind() == reflect.Slice && path != ""
			switch {
			case err == nil:
			case leaveOut && isText:
				f.SetZero()
			case field.Anonymous: // JSON has its fields among the others
				return path, err
			default:
				name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
				return "." + name + path, err
			}
		}
	}
	return "", nil
}

func checkSize(size int, limit, unit string) error {
	most, err := strconv.Atoi(cmp.Or(limit, strconv.Itoa(MaxText)))
	if err == nil && size > most {
		err = fmt.Errorf("%d %s: want at most %d", size, unit, most)
	}
	return err
}

// maxProblems is how many problems a report has, and maxReported how long their messages
// are. Node has the same bounds as tags.
const (
	maxProblems = 64
	maxReported = 512
)

// bounded returns n with problems that fit a report. A machine with very many problems
// still reports its GPUs.
func (n *Node) bounded() *Node {
	cut := *n
	cut.Problems = nil
	for i, p := range n.Problems {
		if i == maxProblems-1 && len(n.Problems) > maxProblems {
			cut.Problems = append(cut.Problems, Finding{Reason: ReasonMoreProblems, Message: fmt.Sprintf("the machine has %d more problems", len(n.Problems)-i)})
			break
		}
		p.Reason, p.Message = Cut(p.Reason, MaxText), Cut(p.Message, maxReported)
		cut.Problems = append(cut.Problems, p)
	}
	return &cut
}
