// Package browsertest opens pages in headless Chromium, hears what they say and has axe
// look at them. Its code has the build tag browser.
package browsertest
