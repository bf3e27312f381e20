import { useSignal } from '@preact/signals';
import { later } from '../app/later.tsx';
import { mayOperate } from '../data/caller.ts';
import { Button } from '../ui/button.tsx';

const NewRunDialog = later(async () => (await import('../app/more-parts.ts')).NewRunDialog);

/** Opens the form for a new run, for those who may start one. */
export function NewRunButton({ agent }: { agent: string }) {
  const isOpen = useSignal(false);
  if (!mayOperate()) return null;
  return (
    <>
      <Button class="primary" label="New run" onClick={() => (isOpen.value = true)} />
      {isOpen.value && <NewRunDialog agent={agent} onClose={() => (isOpen.value = false)} />}
    </>
  );
}
