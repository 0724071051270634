// Package chromerig drives a real Chromium without a screen: Debian's package, which
// testdata/setup.sh installs. A browser begins without history, and it ends with the test.
//
// The rig loads only pages of the test itself, so the browser runs without its sandbox, which
// root cannot have. Nothing waits for a fixed time: each wait ends when its condition is true.
package chromerig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/quoin-hpc/quoin/test/rig/await"
)

// patience is the longest time of a step, for a machine that is busy with other tests.
const patience = 2 * time.Minute

// programs are the names of Debian's Chromium. The shell without a screen is smaller.
var programs = []string{"chromium-headless-shell", "chromium"}

// Options say what the browser looks like.
type Options struct {
	// Width and Height are the window's; 0 is 1280 and 900.
	Width, Height int
	// Dark says that the user likes dark pages. Print shows pages as on paper.
	Dark, Print bool
}

// Browser is one window with one page.
type Browser struct {
	ctx      context.Context //nolint:containedctx // chromedp keeps the browser in it
	stop     func()
	mu       sync.Mutex
	problems []string
	requests []string
}

// Start starts a browser. Stop ends it.
func Start(ctx context.Context, o Options) (*Browser, error) {
	program, err := find(ctx)
	if err != nil {
		return nil, err
	}
	profile, err := os.MkdirTemp("", "chromerig-")
	if err != nil {
		return nil, fmt.Errorf("start Chromium: %w", err)
	}
	if o.Width == 0 {
		o.Width, o.Height = 1280, 900
	}
	flags := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.UserDataDir(profile), chromedp.WSURLReadTimeout(patience),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("disable-gpu", true), chromedp.Flag("force-color-profile", "srgb"), chromedp.WindowSize(o.Width, o.Height))
	alloc, stopAlloc := chromedp.NewExecAllocator(ctx, flags...)
	tab, stopTab := chromedp.NewContext(alloc)
	b := &Browser{ctx: tab, stop: func() {
		stopTab()
		stopAlloc()
		_ = os.RemoveAll(profile)
	}}
	err = chromedp.Listen(tab, b.hear) // which starts the browser
	if err == nil {
		err = b.Look(o) //nolint:contextcheck // the browser has one of its own
	}
	if err != nil {
		b.Stop()
		return nil, fmt.Errorf("start Chromium: %w", err)
	}
	return b, nil
}

func find(context.Context) (string, error) {
	for _, name := range programs {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("start Chromium: none of %s is installed: run make setup", strings.Join(programs, ", "))
}

// Look makes the window as the options say.
func (b *Browser) Look(o Options) error {
	if o.Width == 0 {
		o.Width, o.Height = 1280, 900
	}
	scheme, medium := "light", ""
	if o.Dark {
		scheme = "dark"
	}
	if o.Print {
		medium = "print"
	}
	return b.do("look", chromedp.EmulateViewport(int64(o.Width), int64(o.Height)), chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err1 := cdp.Call(ctx, t, network.Enable, network.EnableParams{})
		_, err2 := cdp.Call(ctx, t, cdplog.Enable, cdp.Empty{})
		_, err3 := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: medium, Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		return errors.Join(err1, err2, err3)
	}))
}

// Stop ends the browser.
func (b *Browser) Stop() { b.stop() }

// hear remembers what the browser complains about, and what it asks for.
func (b *Browser) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			var words []string
			for _, a := range e.Args {
				words = append(words, string(a.Value)+a.Description)
			}
			b.problems = append(b.problems, fmt.Sprintf("console %s: %s", e.Type, strings.Join(words, " ")))
		}
	case *runtime.EventExceptionThrown:
		b.problems = append(b.problems, "exception: "+(&chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails}).Error())
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.EntryLevelError || e.Entry.Level == cdplog.EntryLevelWarning {
			b.problems = append(b.problems, fmt.Sprintf("%s %s: %s %s", e.Entry.Source, e.Entry.Level, e.Entry.Text, e.Entry.URL))
		}
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	}
}

// Problems are the errors and warnings of all pages until now: of scripts, of the network, and
// what a Content-Security-Policy refused.
func (b *Browser) Problems() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.problems...)
}

// Requests are the addresses of all requests until now.
func (b *Browser) Requests() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.requests...)
}

// ask asks the page for something, for as long as the rig has patience.
func ask[T any](b *Browser, what string, of func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	got, err := of(ctx)
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return got, err
}

func (b *Browser) do(what string, steps ...chromedp.Action[chromedp.Void]) error {
	_, err := ask(b, what, func(ctx context.Context) (bool, error) { return true, chromedp.Do(ctx, steps...) })
	return err
}

// Open loads a page.
func (b *Browser) Open(url string) error { return b.do("open "+url, chromedp.Navigate(url)) }

// Eval evaluates an expression in the page. into gets its value by way of JSON, and may be nil.
func (b *Browser) Eval(expression string, into any) error {
	_, err := ask(b, "evaluate "+expression, func(ctx context.Context) (bool, error) {
		text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("JSON.stringify("+expression+") ?? 'null'"))
		if err == nil && into != nil {
			err = json.Unmarshal([]byte(text), into)
		}
		return true, err
	})
	return err
}

// Wait waits until an expression is true.
func (b *Browser) Wait(expression string) error {
	return await.NoError(b.ctx, "wait for "+expression, func(ctx context.Context) error {
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		if err == nil && !is {
			err = errors.New("it is not true")
		}
		return err // a page that is being loaded has no answer yet
	})
}

// Click clicks the first element of a CSS selector with the mouse.
func (b *Browser) Click(selector string) error {
	return b.do("click "+selector, chromedp.Click(chromedp.CSS(selector)))
}

// Type types keys where the focus is: text such as "a", or keys of package kb.
func (b *Browser) Type(keys string) error { return b.do("type", chromedp.KeyEvent(keys)) }

// Into types into the element of a CSS selector.
func (b *Browser) Into(selector, text string) error {
	return b.do("type into "+selector, chromedp.Focus(chromedp.CSS(selector)), chromedp.KeyEvent(text))
}

// Choose sets a list of choices and says so to the page, as a user does.
func (b *Browser) Choose(selector, value string) error {
	return b.Eval(fmt.Sprintf("(e => { e.value = %q; e.dispatchEvent(new Event('change', {bubbles: true})) })(document.querySelector(%q))", value, selector), nil)
}

// Picture returns the window as PNG.
func (b *Browser) Picture() ([]byte, error) {
	return ask(b, "take a picture", func(ctx context.Context) ([]byte, error) { return chromedp.Run(ctx, chromedp.CaptureScreenshot()) })
}

// Spoken returns what a screen reader finds: role and name of each element that it does not pass
// over, in the order of the page.
func (b *Browser) Spoken() (out []string, err error) {
	tree, err := ask(b, "read the accessibility tree", func(ctx context.Context) (accessibility.GetFullAXTreeResult, error) {
		return chromedp.Call(ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	})
	if err != nil {
		return nil, err
	}
	for _, n := range tree.Nodes {
		if !n.Ignored && n.Role != nil {
			out = append(out, text(n.Role)+": "+text(n.Name))
		}
	}
	return out, nil
}

// text is a value without its quotes.
func text(v *accessibility.Value) (out string) {
	if v == nil || json.Unmarshal([]byte(v.Value), &out) != nil {
		return ""
	}
	return out
}
