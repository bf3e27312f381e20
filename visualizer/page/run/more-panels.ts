// What a run shows only when it is asked for, as one file: parts of their own would cost more than they spare.

export { AheadPane } from './ahead-pane.tsx';
export { FullChart } from './chart/full-chart.tsx';
export { QuestionForms, SchemaEditor, SignInBar } from './decisions/question-forms.tsx';
export { ReplyEditor } from './edits/reply-editor.tsx';
export { ForkPanel } from './forking/fork-panel.tsx';
export { savePicture } from './picture.ts';
export { SequencePane } from './sequence-pane.tsx';
export { Breakpoints } from './steering/breakpoints-panel.tsx';
export { WaterfallPane } from './waterfall-pane.tsx';
