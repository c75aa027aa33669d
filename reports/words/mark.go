package words

// Mark is a verdict as icon, word and CSS class. The icon repeats what the
// word says, so that neither colour nor font decides what is read.
type Mark struct {
	Icon, Word, Class string
}
