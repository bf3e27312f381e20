// What is visited or opened now and then, as one file: each in its own would cost more than it spares.

export { AgentsView } from '../agents/agents-view.tsx';
export { CompareView } from '../compare/compare-view.tsx';
export { RegressionsView } from '../regressions/regressions-view.tsx';
export { AheadPane } from '../run/ahead-pane.tsx';
export { FullChart } from '../run/chart/full-chart.tsx';
export { QuestionForms, SchemaEditor, SignInBar } from '../run/decisions/question-forms.tsx';
export { ReplyEditor } from '../run/edits/reply-editor.tsx';
export { ForkPanel } from '../run/forking/fork-panel.tsx';
export { savePicture } from '../run/picture.ts';
export { SequencePane } from '../run/sequence-pane.tsx';
export { Breakpoints } from '../run/steering/breakpoints-panel.tsx';
export { WaterfallPane } from '../run/waterfall-pane.tsx';
export { SessionView, ThreadView } from '../session/thread-view.tsx';
export { NewRunDialog } from '../views/new-run.tsx';
