// The views that are visited now and then, as one file.

export { AgentsView } from '../agents/agents-view.tsx';
export { ExampleView } from '../ahead/example-view.tsx';
export { CompareView } from '../compare/compare-view.tsx';
export { NotesView } from '../notes/notes-view.tsx';
export { RegressionsView } from '../regressions/regressions-view.tsx';
export { SessionView, ThreadView } from '../session/thread-view.tsx';
export { NewRunDialog } from '../views/new-run.tsx';
