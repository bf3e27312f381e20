import { actingName, setActingName } from '../data/acting-as.ts';

/** The name that this browser decides with. It changes no form that it is in. */
export function NameField({ label }: { label: string }) {
  return (
    <label class="acting">
      <span>{label}</span>
      <input
        type="text"
        name="by"
        maxLength={80}
        placeholder="your name"
        autocomplete="name"
        value={actingName.value}
        onInput={event => {
          event.stopPropagation();
          setActingName(event.currentTarget.value);
        }}
      />
    </label>
  );
}
