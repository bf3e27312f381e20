// What is visited or opened now and then, as one file: each in its own would cost more than it spares.

export { AgentsView } from '../agents/agents-view.tsx';
export { ExampleView } from '../ahead/example-view.tsx';
export { CompareView } from '../compare/compare-view.tsx';
export { NotesView } from '../notes/notes-view.tsx';
export { RegressionsView } from '../regressions/regressions-view.tsx';
export { AheadPane } from '../run/ahead-pane.tsx';
export { FullChart } from '../run/chart/full-chart.tsx';
export { QuestionForms } from '../run/decisions/question-forms.tsx';
export { SchemaEditor } from '../run/decisions/schema-editor.tsx';
export { SignInBar } from '../run/decisions/sign-in-bar.tsx';
export { ReplyEditor } from '../run/edits/reply-editor.tsx';
export { ForkPanel } from '../run/forking/fork-panel.tsx';
export { savePicture } from '../run/picture.ts';
export { SequencePane } from '../run/sequence-pane.tsx';
export { Breakpoints } from '../run/steering/breakpoints-panel.tsx';
export { WaterfallPane } from '../run/waterfall-pane.tsx';
export { SessionView } from '../session/session-view.tsx';
export { ThreadView } from '../session/thread-view.tsx';
export { NewRunDialog } from '../views/new-run.tsx';
